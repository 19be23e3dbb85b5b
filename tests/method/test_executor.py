"""The executor, rule by rule: on the two-arm toy where every case can be arranged exactly, and in the kitchen where physics decides."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bare import bare_kitchen
from capex.errors import UnknownName, Unsupported
from capex.method.executor import BASE_REACHED_M, DISPLACEMENT_MAX_M, Executor
from capex.method.motion import STALL_WINDOW
from capex.plan import ArmTarget, BaseMotion, Waypoint
from capex.pose import DOWN, angle_between
from capex.worlds import Start
from toy import Ball, Box, Toy, ToyEnv

WALL = Box(
    "wall", (0.5, -1.0, 0.0), (0.6, 1.0, 2.0)
)  # floor frame; the home tips stand 5 cm before it
HOME = {"left": np.array([0.45, 0.2, 0.15]), "right": np.array([0.45, -0.2, 0.15])}


def to(arm: str, offset, orientation="keep", gripper="keep", confidence=None) -> Waypoint:
    position = tuple(float(v) for v in HOME[arm] + np.asarray(offset))
    return Waypoint({arm: ArmTarget(position, orientation, gripper)}, confidence=confidence)


def grip(arm: str, word: str) -> Waypoint:
    return Waypoint({arm: ArmTarget(gripper=word)})


def run(toy: Toy, *waypoints: Waypoint, **options):
    env = ToyEnv(toy)
    return env, Executor(env, **options).execute(waypoints)


def test_a_free_motion_reaches_and_is_labelled_one():
    _, (outcome,) = run(Toy(), to("left", (0.05, 0, 0.03)))
    assert (outcome.status, outcome.report, outcome.label) == ("reached", "reached", 1)
    assert np.linalg.norm(outcome.tips["left"].position_m - HOME["left"] - [0.05, 0, 0.03]) <= 0.008
    assert np.allclose(
        outcome.tips["right"].position_m, HOME["right"]
    )  # the arm without a target holds


def test_both_arms_move_together_and_carry_one_label():
    both = Waypoint({**to("left", (0, 0, 0.06)).targets, **to("right", (0, 0, -0.06)).targets})
    _, (outcome,) = run(Toy(), both)
    assert (outcome.status, outcome.label) == ("reached", 1)
    assert outcome.steps <= 4  # 6 cm at 2 cm a tick, at the same time
    blocked = Box("shelf", (0.4, -0.3, 0.5), (0.5, -0.1, 0.63))
    _, (outcome,) = run(Toy(boxes=(blocked,)), both)
    assert (outcome.status, outcome.label) == ("finger contact", 0)
    assert np.allclose(outcome.tips["left"].position_m, HOME["left"] + [0, 0, 0.06], atol=0.008)
    assert outcome.report.endswith("cm from target (right)")
    apart = Waypoint({**to("left", (0, 0, 0.2)).targets, **to("right", (0, 0, 0.02)).targets})
    assert run(Toy(), apart)[1][0].report == "reached; left shortened to 10 cm"


def test_displacements_are_shortened_from_the_previous_clamped_target_and_projected_into_the_box():
    env = ToyEnv(Toy())
    executor = Executor(env)
    outcomes = executor.execute(
        [
            to("left", (0, 0.3, 0)),
            to("left", (0, 0.3, 0)),
            to("left", (0, 0.31, 0)),
            to("left", (0, 0.35, 0)),
        ]
    )
    assert [o.report for o in outcomes] == [
        "reached; shortened to 10 cm",
        "reached; shortened to 10 cm",
        "reached; shortened to 10 cm",
        "reached; moved into the workspace",
    ]
    legs = np.diff([HOME["left"], *(o.targets["left"].position_m for o in outcomes)], axis=0)
    assert np.allclose(np.linalg.norm(legs[:3], axis=1), DISPLACEMENT_MAX_M)
    assert outcomes[-1].targets["left"].position_m[1] == env.spec.workspace_m[1][1]


def test_a_motion_against_a_wall_stops_by_finger_contact_and_labels_zero_however_near():
    _, outcomes = run(Toy(boxes=(WALL,)), to("left", (0.1, 0, 0)), to("left", (0.1, 0, 0.05)))
    assert outcomes[0].status == "finger contact"
    assert outcomes[0].report.startswith("stopped by finger contact 5.")
    assert outcomes[0].label == 0
    assert (outcomes[1].status, outcomes[1].report, outcomes[1].label) == (
        "not executed",
        "not executed",
        None,
    )
    _, (near,) = run(Toy(boxes=(WALL,)), to("left", (0.0585, 0, 0)))
    assert near.position_error_m < 0.01
    assert (near.status, near.label) == ("finger contact", 0)


def test_a_stall_within_a_centimetre_counts_as_reached_unless_contact_began_in_it():
    limit = Box("j4", (0.5, -1.0, -1.0), (0.9, 1.0, 1.0))  # base frame
    _, (near,) = run(Toy(limits=(limit,)), to("left", (0.0585, 0, 0)))
    assert near.status == "stalled"
    assert near.label == 1
    _, (far,) = run(Toy(limits=(limit,)), to("left", (0.08, 0, 0)))
    assert far.report == "stalled: joint limit (j4), 3.1 cm from target"
    assert far.label == 0
    env = ToyEnv(Toy(boxes=(WALL,)))
    executor = Executor(env)
    executor.execute([to("left", (0.1, 0, 0))])  # now touching the wall
    (again,) = executor.execute([Waypoint({"left": ArmTarget((0.509, 0.2, 0.15))})])
    assert (again.status, again.label) == (
        "finger contact",
        1,
    )  # the contact was there before this waypoint began


def test_another_parts_contact_stops_at_once_names_both_and_skips_the_gripper():
    zone = Box("shelf", (0.40, 0.15, 0.70), (0.50, 0.25, 0.90))
    _, (outcome,) = run(Toy(forearm=(zone,)), to("left", (0, 0, 0.1), gripper="close"))
    assert outcome.status == "contact"
    assert outcome.report == "stopped by contact (left forearm on shelf)"
    assert outcome.label == 0
    env = ToyEnv(Toy(forearm=(zone,)))
    executor = Executor(env)
    executor.execute([to("left", (0, 0, 0.1))])
    (again,) = executor.execute(
        [to("left", (0, 0, 0.12))]
    )  # a contact that is already there does not stop a motion
    assert again.status == "reached"


def test_a_slow_motion_times_out_after_200_steps():
    _, (outcome,) = run(Toy(speed_m=0.0002), to("left", (0.1, 0, 0), gripper="close"))
    assert outcome.status == "timeout"
    assert outcome.steps == 200
    assert outcome.label == 0
    assert "close" not in outcome.report


def test_progress_in_rotation_alone_is_no_stall():
    _, (outcome,) = run(Toy(speed_rad=0.02), to("left", (0, 0, 0.05), (0, 0, 150)))
    assert outcome.status == "reached"
    assert outcome.steps > STALL_WINDOW


def test_the_gripper_still_runs_after_a_stall():
    _, (outcome,) = run(Toy(boxes=(WALL,)), to("left", (0.1, 0, 0), gripper="close"))
    assert outcome.status == "finger contact"
    assert "close: opening 0.0 cm" in outcome.report


def test_the_label_is_of_the_motion_not_of_what_the_gripper_does_afterwards():
    front = Box(
        "apple", WALL.lower_m, WALL.upper_m
    )  # the fingers run into an apple 0.9 cm before the target, then close around it
    apple = Ball("apple", (0.499, 0.2, 0.65))
    env, (outcome,) = run(
        Toy(boxes=(front,), balls=(apple,)), to("left", (0.0585, 0, 0), gripper="close")
    )
    assert env.robot_state().arms["left"].held == {"apple"}
    assert (outcome.status, outcome.label) == ("finger contact", 0)


def test_gripper_commands_and_their_skip_rules():
    env = ToyEnv(Toy(arms=("left",)))
    executor = Executor(env)

    def say(word):
        (outcome,) = executor.execute([grip("left", word)])
        assert (outcome.status, outcome.label) == ("gripper", None)
        return outcome.report, outcome.steps

    assert say("open") == ("open skipped (already open)", 0)
    report, steps = say("release")
    assert report == "release: opening 8.0 cm"
    assert 10 <= steps <= 20
    assert say("close")[0] == "close: opening 0.0 cm"
    assert say("close") == ("close skipped (already closed)", 0)
    assert say("reclose")[0] == "reclose: opening 0.0 cm"
    assert say("open")[0] == "open: opening 8.0 cm"
    assert say("keep") == ("", 0)


def test_a_close_below_one_centimetre_runs_when_the_last_command_was_not_close():
    env = ToyEnv(Toy(arms=("left",), max_opening_m=0.009))
    (outcome,) = Executor(env).execute([grip("left", "close")])
    assert outcome.report == "close: opening 0.0 cm"


def test_open_runs_at_full_opening_when_the_fingers_touch_something():
    ball = Ball("apple", tuple(HOME["left"] + [0, 0, 0.5]), 0.0399)
    env = ToyEnv(Toy(arms=("left",), balls=(ball,)))
    executor = Executor(env)
    (held,) = executor.execute([grip("left", "close")])
    assert held.report == "close: opening 8.0 cm, finger contact"
    (opened,) = executor.execute([grip("left", "open")])
    assert opened.report.startswith("open: opening 8.0 cm")


def test_reaching_while_holding_something_is_labelled_one_and_the_grip_is_kept():
    ball = Ball("apple", tuple(HOME["left"] + [0, 0, 0.5]))
    env = ToyEnv(Toy(balls=(ball,)))
    outcomes = Executor(env).execute(
        [grip("left", "close"), to("left", (0, 0, 0.08)), to("left", (0, 0.08, 0.08))]
    )
    assert [o.label for o in outcomes] == [None, 1, 1]
    assert env.robot_state().arms["left"].held == {"apple"}
    assert np.allclose(env.ball_m("apple"), HOME["left"] + [0, 0.08, 0.58], atol=0.01)


def _high(env) -> bool:
    return env.robot_state().arms["left"].T_base_tip.position_m[2] > 0.2


def test_success_ends_the_episode_without_a_label():
    _, outcomes = run(Toy(success=_high), to("left", (0, 0, 0.1)), to("left", (0, 0, 0.2)))
    assert [(o.status, o.report, o.label) for o in outcomes] == [
        ("terminal", "terminal", None),
        ("not executed", "not executed", None),
    ]


def _closed(env) -> bool:
    return env.robot_state().arms["left"].opening_m < 0.01


def test_success_by_the_gripper_command_leaves_the_label_of_the_motion_before_it():
    _, outcomes = run(
        Toy(success=_closed), to("left", (0, 0, 0.05), gripper="close"), to("left", (0, 0, 0.1))
    )
    assert [(o.status, o.report, o.label) for o in outcomes] == [
        ("terminal", "terminal", 1),
        ("not executed", "not executed", None),
    ]
    limit = Box("j4", (0.5, -1.0, -1.0), (0.9, 1.0, 1.0))  # base frame
    _, (near,) = run(
        Toy(limits=(limit,), success=_closed), to("left", (0.0585, 0, 0), gripper="close")
    )
    _, (far,) = run(
        Toy(limits=(limit,), success=_closed), to("left", (0.08, 0, 0), gripper="close")
    )
    _, (touching,) = run(
        Toy(boxes=(WALL,), success=_closed), to("left", (0.0585, 0, 0), gripper="close")
    )
    assert [(o.status, o.label) for o in (near, far, touching)] == [
        ("terminal", 1),
        ("terminal", 0),
        ("terminal", 0),
    ]
    _, (alone,) = run(Toy(success=_closed), grip("left", "close"))
    _, (driven,) = run(
        Toy(success=_closed), Waypoint({"left": ArmTarget(gripper="close")}, BaseMotion(0.1))
    )
    assert [(o.status, o.label) for o in (alone, driven)] == [("terminal", None)] * 2


def test_a_label_stays_when_the_steps_run_out_in_the_gripper_command():
    _, (outcome,) = run(Toy(), to("left", (0, 0, 0.04), gripper="close"), steps_left=5)
    assert (outcome.status, outcome.label) == ("out of steps", 1)


def test_the_step_budget_ends_a_motion_and_everything_after_it():
    env = ToyEnv(Toy())
    executor = Executor(env, steps_left=2)
    outcomes = executor.execute([to("left", (0, 0, 0.1)), to("left", (0, 0, 0.2))])
    assert [(o.status, o.label) for o in outcomes] == [
        ("out of steps", None),
        ("not executed", None),
    ]
    assert executor.steps_left == 0
    assert executor.execute([to("left", (0, 0, 0))])[0].status == "not executed"


def test_deferred_waypoints_are_reported_as_such_and_clamped_like_the_rest():
    env = ToyEnv(Toy())
    outcomes = Executor(env).execute([to("left", (0, 0, 0.05))], [to("left", (0, 0, 0.25))])
    assert outcomes[1].report == "not executed (deferred: low confidence)"
    assert outcomes[1].label is None
    assert outcomes[1].targets["left"].shortened


def test_keep_preserves_the_orientation_asked_for_without_drift():
    env = ToyEnv(Toy(speed_rad=0.05))
    executor = Executor(env)
    executor.execute([to("left", (0, 0, 0.02), "down")])
    for k in range(10):
        executor.execute([to("left", (0, 0, 0.02 + 0.01 * (k % 2)))])
    assert angle_between(env.robot_state().arms["left"].T_base_tip.rotation, DOWN) < 1e-6
    executor.execute([to("left", (0, 0, 0.02), (170, 0, 0))])
    (kept,) = executor.execute([to("left", (0, 0, 0.06))])
    assert angle_between(kept.targets["left"].rotation, kept.tips["left"].rotation) < 0.08


def test_base_motion_drives_the_measured_distance_while_the_arms_ride_along():
    env = ToyEnv(Toy())
    executor = Executor(env)
    executor.execute([Waypoint(base=BaseMotion(turn_rad=math.pi / 2))])
    (outcome,) = executor.execute(
        [Waypoint({"left": ArmTarget(gripper="close")}, BaseMotion(0.3, 0.1))]
    )
    assert (outcome.status, outcome.label) == ("base", None)
    assert outcome.report.startswith(
        "base moved 30 cm forward, 10 cm left, turned 0 deg left; left close: opening 0.0 cm"
    )
    assert np.allclose(outcome.base_moved, (0.3, 0.1, 0), atol=BASE_REACHED_M)
    x, y, yaw = env.robot_state().base
    assert np.allclose(
        (x, y), (-0.1, 0.3), atol=2 * BASE_REACHED_M
    )  # forward is along the heading, which is now world y
    assert np.isclose(yaw, math.pi / 2, atol=0.03)
    assert np.allclose(outcome.tips["left"].position_m, HOME["left"], atol=1e-6)


def test_a_base_that_cannot_move_stalls_and_says_how_far_it_came():
    _, (outcome,) = run(Toy(walls_m=0.2), Waypoint(base=BaseMotion(0.5)))
    assert outcome.status == "stalled"
    assert outcome.report == "base stalled, base moved 20 cm forward, 0 cm left, turned 0 deg left"


def test_a_plan_for_what_is_not_there_is_refused_before_any_motion():
    env = ToyEnv(Toy(mobile=False))
    with pytest.raises(Unsupported, match="no mobile base"):
        Executor(env).execute([Waypoint(base=BaseMotion(0.1))])
    with pytest.raises(UnknownName, match="there is no arm 'middle'; valid: "):
        Executor(env).execute(
            [to("left", (0, 0, 0.1)), Waypoint({"middle": ArmTarget((0.4, 0, 0.2))})]
        )
    assert np.allclose(env.robot_state().arms["left"].T_base_tip.position_m, HOME["left"])


def test_every_tick_reaches_the_subscribers():
    ticks = []
    env = ToyEnv(Toy())
    outcomes = Executor(env, subscribers=[ticks.append]).execute(
        [to("left", (0, 0, 0.1)), grip("left", "close")]
    )
    assert len(ticks) == sum(o.steps for o in outcomes)
    assert {t.waypoint for t in ticks} == {0, 1}
    assert all(t.action.shape == (len(env.spec.action_names),) for t in ticks)


def _kitchen(env, index=0):
    env.reset(Start(env.spec.task, index))
    return Executor(env, steps_left=5000), env.robot_state().arms["arm"].T_base_tip.position_m


def _go(position, orientation="keep", gripper="keep"):
    return Waypoint({"arm": ArmTarget(tuple(float(v) for v in position), orientation, gripper)})


def test_kitchen_free_motion_gripper_and_base(stove):
    executor, tip = _kitchen(stove)
    for offset in ((0.1, 0, 0), (0.1, 0.1, 0), (0, 0.1, -0.05), (0, 0, 0)):
        (outcome,) = executor.execute([_go(tip + offset)])
        assert outcome.status == "reached"
        assert outcome.steps < 30
    assert (
        executor.execute([_go(tip, gripper="close")])[0].report == "reached; close: opening 0.0 cm"
    )
    (drive,) = executor.execute(
        [Waypoint({"arm": ArmTarget(gripper="open")}, BaseMotion(-0.3, 0.1, 0.5))]
    )
    assert np.allclose(drive.base_moved, (-0.3, 0.1, 0.5), atol=0.025)
    assert "open: opening 8.0 cm" in drive.report
    (turn,) = executor.execute([_go(tip, "forward")])
    assert turn.status == "reached"


def test_kitchen_pressing_the_counter_is_finger_contact_and_holds_nothing():
    env = bare_kitchen()
    executor, tip = _kitchen(env)
    outcomes = executor.execute([_go((tip[0], 0, z), "down") for z in (0.60, 0.53, 0.44)])
    assert [o.status for o in outcomes] == ["reached", "reached", "finger contact"]
    assert outcomes[-1].label == 0
    assert env.robot_state().arms["arm"].held == frozenset()
    env.close()


def test_kitchen_driving_into_a_fixture_names_the_part_and_the_thing(stove):
    executor, _ = _kitchen(stove)
    (outcome,) = executor.execute([Waypoint(base=BaseMotion(0.5))])
    assert outcome.status == "contact"
    assert outcome.report.startswith("stopped by contact (base on ")


def test_kitchen_out_of_reach_stalls_and_names_the_joint(stove):
    executor, tip = _kitchen(stove)
    executor.execute([Waypoint(base=BaseMotion(-0.5))])
    outcomes = executor.execute(
        [_go(tip + np.array([0.0, 0.0, -0.08]) * k, "forward") for k in range(1, 8)]
    )
    stopped = next(o for o in outcomes if o.status != "reached")
    assert stopped.status == "stalled"
    assert "joint limit (j" in stopped.report


class GuardedToy(ToyEnv):
    """A toy with a guard as a rig has one: steps are cut, and a plane high up stops the motion."""

    stops_at_m = 1.0

    def robot_state(self):
        state = super().robot_state()
        moved = getattr(self, "ticks", 0) > 0
        high = bool(state.arms["left"].T_base_tip.position_m[2] > self.stops_at_m)
        guard = ("step cut to 20 mm",) if moved else ()
        return replace(state, guard=guard, stopped="force 31 N at the tip" * high)

    def apply(self, action):
        self.ticks = getattr(self, "ticks", 0) + 1
        super().apply(action)


def test_what_the_guard_changed_is_in_the_report_of_its_waypoint():
    outcomes = Executor(GuardedToy(Toy())).execute([to("left", (0, 0, 0.03)), grip("left", "open")])
    assert outcomes[0].report == "reached; guard: step cut to 20 mm in 2 ticks"
    assert (outcomes[0].status, outcomes[0].label) == ("reached", 1)
    assert outcomes[1].report == "left open skipped (already open)"


def test_a_guard_stop_ends_the_waypoint_without_its_gripper_and_returns_control():
    env = GuardedToy(Toy())
    env.stops_at_m = 0.2
    higher = to("left", (0, 0, 0.09), gripper="close")
    stopped, other = Executor(env).execute([higher, to("left", (0, 0, 0))])
    assert stopped.report == (
        "stopped by the guard: force 31 N at the tip; guard: step cut to 20 mm in 3 ticks"
    )
    assert (stopped.status, stopped.label, other.status) == ("guard stop", 0, "not executed")
    assert stopped.position_error_m == pytest.approx(0.03)
    assert env.robot_state().arms["left"].opening_m == 0.08


def test_without_force_sensing_a_stall_within_a_centimetre_counts_as_reached_and_says_so():
    ceiling = Box("joint 4", (0.0, -1.0, 0.194), (1.0, 1.0, 0.5))
    env = ToyEnv(Toy(limits=(ceiling,)))
    env.robot_state = lambda: _without_limits(ToyEnv.robot_state(env))
    env._spec = replace(
        env.spec, arms=tuple(replace(a, senses_contact=False) for a in env.spec.arms)
    )
    near, far = (Executor(env).execute([to("left", (0, 0, z))])[0] for z in (0.0525, 0.08))
    assert near.report == "stalled 0.9 cm from target, counted as reached (no force sensing)"
    assert (near.status, near.label) == ("stalled", 1)
    assert (far.report, far.label) == ("stalled 3.6 cm from target", 0)


def _without_limits(state):
    arms = {n: replace(arm, joints_at_limit=()) for n, arm in state.arms.items()}
    return replace(state, arms=arms)
