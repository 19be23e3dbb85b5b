"""Goals of the servo against arms that lag, stop short and sag: the numbers of the benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from capex.pose import DOWN, Pose, angle_between, rotation_matrix, rotation_vector
from capex.rigs.servo import Servo, ServoLimits
from capex.worlds import ArmCommand

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from servo_response import MOVES, PLANTS, judge, kept_goal, naive, respond


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
@pytest.mark.parametrize("step_m", [0.004, 0.01])
@pytest.mark.parametrize("move", MOVES.values(), ids=list(MOVES))
def test_it_arrives_without_overshoot_or_swinging(plant, step_m, move):
    response = judge(respond(plant, kept_goal(step_m), move, step_m), move)
    assert response.reached is not None
    assert response.rest_m < 0.004
    assert response.swing_m < 0.0005
    assert response.overshoot_m < 0.004


def test_a_step_on_the_measured_pose_never_lifts_a_sagging_arm():
    sagging = next(plant for plant in PLANTS if plant.sag_m)
    assert judge(respond(sagging, naive, MOVES["up"]), MOVES["up"]).reached is None


def turned_servo(ticks, sag_rad):
    """An arm whose hand droops about x while it is turned about z."""
    servo, here, goal = Servo(ServoLimits(0.01, 0.05, 0.03, 0.3)), DOWN, DOWN
    target = rotation_matrix(np.array([0.0, 0.0, 0.6])) @ DOWN
    for _ in range(ticks):
        turn = rotation_vector(target @ here.T)
        turn = turn * min(1.0, 0.05 / max(np.linalg.norm(turn), 1e-9))
        pose = servo.propose(
            ArmCommand((0.0, 0.0, 0.0), tuple(turn.tolist())), Pose(np.zeros(3), here)
        )
        servo.sent(pose)
        goal = rotation_matrix(np.array([-sag_rad, 0.0, 0.0])) @ pose.rotation
        here = rotation_matrix(0.5 * rotation_vector(goal @ here.T)) @ here
    return angle_between(here, target)


def test_turns_arrive_like_moves():
    assert turned_servo(100, 0.0) < 0.01
    assert turned_servo(100, 0.06) < 0.01


def test_a_goal_is_held_and_a_cut_goal_is_taken_back():
    servo = Servo(ServoLimits(0.01, 0.05, 0.03, 0.3))
    here = Pose(np.zeros(3), DOWN)
    assert servo.propose(ArmCommand(), here) is None
    assert servo.goal is None
    servo.propose(ArmCommand((0.01, 0.0, 0.0)), here)
    servo.sent(here)  # the guard let nothing through
    for _ in range(50):
        goal = servo.propose(ArmCommand((0.01, 0.0, 0.0)), here)
        servo.sent(here)
    assert goal.position_m[0] <= 0.03 + 1e-9
    assert servo.propose(ArmCommand(None), here) is None
    assert servo.goal is here


def test_no_bias_is_learned_while_the_hand_presses():
    def push(pressing):
        servo, here = Servo(ServoLimits(0.004, 0.05, 0.03, 0.3)), Pose(np.zeros(3), DOWN)
        for _ in range(50):
            goal = servo.propose(ArmCommand((0.0, 0.0, -0.004)), here, pressing=pressing)
            servo.sent(goal)
        return -goal.position_m[2]

    assert push(True) == pytest.approx(0.01)
    assert push(False) == pytest.approx(0.03)


def test_an_arm_that_someone_moved_begins_where_it_is():
    servo, there = Servo(ServoLimits(0.01, 0.05, 0.03, 0.3)), Pose(np.array([0.2, 0.0, 0.0]), DOWN)
    servo.sent(servo.propose(ArmCommand((0.01, 0.0, 0.0)), Pose(np.zeros(3), DOWN)))
    goal = servo.propose(ArmCommand((0.005, 0.0, 0.0)), there)
    assert np.allclose(goal.position_m, [0.205, 0.0, 0.0], atol=0.002)
