"""The guard, by itself: what leaves it, in which words, and what stops."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from capex.pose import DOWN, FORWARD, Pose, angle_between, rotation_matrix
from capex.rigs.drivers import ArmFacts
from capex.rigs.guard import Guard, TipState
from capex.rigs.hands import HandPart
from capex.rigs.lastcheck import GoalCheck, refused
from capex.rigs.rigfile import Box, GuardPolicy
from capex.rigs.shapes import hull_of, segments_apart_m, tilt_rad, way_until

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
from guard_geometry import placed, surface

BOX = Box("workspace", (0.1, -0.5, 0.0), (0.8, 0.5, 0.6))
SHELF = Box("shelf", (0.5, -0.5, 0.0), (0.8, 0.5, 0.2))
FACTS = ArmFacts(("j1", "j2"), ((-1.0, 1.0), (-1.0, 1.0)), 0.08, True, "it holds")
POLICY = GuardPolicy(BOX, (SHELF,))


def pose(x, y, z, turn=(0.0, 0.0, 0.0)):
    return Pose(np.array([x, y, z]), rotation_matrix(np.array(turn)) @ DOWN)


def state(tip, joints=(0.0, 0.0), force=None, age=0.0, error=""):
    return TipState(tip, joints, None if force is None else np.array(force), age, error)


def guard(policy=POLICY, names=("arm",)):
    home = pose(0.4, 0.0, 0.3)
    return Guard(policy, dict.fromkeys(names, FACTS), dict.fromkeys(names, home))


def one(ruling):
    return ruling.goals["arm"].position_m


@pytest.mark.parametrize(
    ("tip", "wanted", "goal", "notes"),
    [
        (pose(0.4, 0, 0.3), pose(0.41, 0, 0.3), (0.41, 0, 0.3), ()),
        (pose(0.4, 0, 0.3), pose(0.5, 0, 0.3), (0.42, 0, 0.3), ("step cut to 20 mm",)),
        (pose(0.4, 0.49, 0.3), pose(0.4, 0.505, 0.3), (0.4, 0.5, 0.3), ("held at the box",)),
        (pose(0.45, 0, 0.1), pose(0.462, 0, 0.1), (0.456, 0, 0.1), ("wrist kept out of shelf",)),
        (pose(0.81, 0, 0.3), pose(0.82, 0, 0.3), (0.8, 0, 0.3), ("held at the box",)),
        (pose(0.6, 0, 0.19), pose(0.6, 0, 0.18), (0.6, 0, 0.19), ("fingers kept out of shelf",)),
        (pose(0.6, 0, 0.19), pose(0.6, 0, 0.2), (0.6, 0, 0.2), ()),
    ],
    ids=["free", "step", "box", "keep-out", "was outside", "was inside, deeper", "outwards"],
)
def test_a_goal_is_cut_to_what_the_policy_allows(tip, wanted, goal, notes):
    ruling = guard().rule({"arm": state(tip)}, {"arm": wanted})
    assert np.allclose(one(ruling), goal, atol=1e-6)
    assert ruling.notes == notes


def test_turns_are_cut_and_the_rest_of_the_goal_goes_on():
    ruling = guard().rule({"arm": state(pose(0.4, 0, 0.3))}, {"arm": pose(0.41, 0, 0.3, (0, 0, 1))})
    assert angle_between(ruling.goals["arm"].rotation, DOWN) == pytest.approx(0.1)
    assert np.allclose(one(ruling), (0.41, 0, 0.3))
    assert ruling.notes == ("turn cut to 6 deg",)


def test_a_goal_stays_near_the_tip_and_near_where_its_motion_began():
    g, tip = guard(), state(pose(0.3, 0, 0.3))
    for k in range(4):  # the arm does not move: goals lead by 30 mm at most
        ruling = g.rule({"arm": tip}, {"arm": pose(0.31 + 0.01 * k, 0, 0.3)})
    assert one(ruling)[0] == pytest.approx(0.33)
    assert ruling.notes == ("goal kept near the tip",)
    g = guard()
    for k in range(20):  # it follows: 12 cm, then it must settle
        ruling = g.rule(
            {"arm": state(pose(0.3 + 0.01 * k, 0, 0.3))}, {"arm": pose(0.31 + 0.01 * k, 0, 0.3)}
        )
    assert ruling.stopped == ""
    assert ruling.notes[0] in ("held 12 cm from where the motion began", "goal kept near the tip")
    here = {"arm": state(pose(0.42, 0, 0.3))}
    g.settled(here)
    assert g.rule(here, {"arm": pose(0.43, 0, 0.3)}).notes == ()


def test_an_arm_that_kept_still_begins_a_new_motion():
    g = guard()
    for k in range(13):
        g.rule({"arm": state(pose(0.3 + 0.01 * k, 0, 0.3))}, {"arm": pose(0.31 + 0.01 * k, 0, 0.3)})
    here, on = {"arm": state(pose(0.42, 0, 0.3))}, {"arm": pose(0.43, 0, 0.3)}
    words = [g.rule(here, on).notes for _ in range(4)]
    assert words[0] == ("held 12 cm from where the motion began",)
    assert words[-1] == ()


def test_a_corner_is_not_cut_by_an_arm_that_lags_behind_its_goal():
    g = guard(replace(POLICY, lead_m=0.1))
    g.rule({"arm": state(pose(0.475, 0, 0.22))}, {"arm": pose(0.49, 0, 0.215)})
    # The goal could slide over the edge; the straight way from the tip below it could not.
    ruling = g.rule({"arm": state(pose(0.47, 0, 0.17))}, {"arm": pose(0.509, 0, 0.2135)})
    assert ruling.notes == ("fingers kept out of shelf",)
    assert one(ruling)[0] < 0.493


def test_a_joint_in_its_margin_may_only_come_back():
    g, free = guard(), pose(0.4, 0, 0.3)
    g.rule({"arm": state(free)}, {"arm": pose(0.41, 0, 0.3)})
    tight = {"arm": state(pose(0.41, 0, 0.3), joints=(0.0, 0.97))}
    assert g.way_back("arm", tight["arm"]) == free
    g.rule(tight, {"arm": pose(0.428, 0, 0.3)})  # a servo's correction
    ruling = g.rule(tight, {"arm": pose(0.439, 0, 0.3)})
    assert ruling.notes == ("joint j2 within its margin",)
    assert np.allclose(one(ruling), (0.428, 0, 0.3))
    ruling = g.rule(tight, {"arm": pose(0.41, 0, 0.3)})
    assert ruling.notes == ()


def test_two_hands_stay_apart_but_may_part():
    g = guard(names=("left", "right"))
    states = {"left": state(pose(0.4, 0.04, 0.3)), "right": state(pose(0.4, -0.04, 0.3))}
    ruling = g.rule(states, {"left": pose(0.4, 0.025, 0.3), "right": pose(0.4, -0.025, 0.3)})
    assert ruling.notes == ("arms kept 6 cm apart",)
    apart = ruling.goals["left"].position_m[1] - ruling.goals["right"].position_m[1]
    assert apart >= 0.06
    close = {"left": state(pose(0.4, 0.02, 0.3)), "right": state(pose(0.4, -0.02, 0.3))}
    g = guard(names=("left", "right"))
    ruling = g.rule(close, {"left": pose(0.4, 0.03, 0.3), "right": None})
    assert ruling.notes == ()
    assert set(ruling.goals) == {"left"}


@pytest.mark.parametrize(
    ("change", "wanted", "reason"),
    [
        ({"age": 0.3}, (0.41, 0, 0.3), "the state of arm is 0.30 s old"),
        ({"error": "reflex"}, (0.41, 0, 0.3), "arm: reflex"),
        ({}, (np.nan, 0, 0.3), "the command for arm is not a finite number"),
        ({}, (0.4, np.inf, 0.3), "the command for arm is not a finite number"),
        ({"force": (0, 0, 31.0)}, (0.4, 0, 0.29), "arm: a force of 31 N"),
    ],
)
def test_stops_latch_until_the_arms_have_settled(change, wanted, reason):
    g, tip = guard(), pose(0.4, 0, 0.3)
    well, step = {"arm": state(tip)}, {"arm": pose(0.41, 0, 0.3)}
    ruling = g.rule({"arm": state(tip, **change)}, {"arm": pose(*wanted)})
    assert (ruling.goals, ruling.stopped) == ({}, reason)
    assert g.rule(well, step).stopped == reason
    g.settled(well)
    assert g.rule(well, step).stopped == ""


def test_moving_along_a_force_ends_its_latch():
    g, tip = guard(), pose(0.4, 0, 0.3)
    pushed = {"arm": state(tip, force=(0, 0, 31.0))}
    assert g.rule(pushed, {"arm": pose(0.4, 0, 0.29)}).stopped
    assert g.rule(pushed, {"arm": None}).stopped
    assert not g.rule(pushed, {"arm": pose(0.4, 0, 0.31)}).stopped
    assert not g.rule({"arm": state(tip)}, {"arm": pose(0.41, 0, 0.3)}).stopped


def test_only_a_person_ends_an_e_stop():
    g, here, step = guard(), {"arm": state(pose(0.4, 0, 0.3))}, {"arm": pose(0.41, 0, 0.3)}
    g.press("stopped by the operator")
    g.settled(here)
    assert g.rule(here, step).stopped == "stopped by the operator"
    g.clear()
    assert g.rule(here, step).stopped == ""


def test_the_last_check_refuses_what_the_cutting_should_not_have_let_through():
    start = pose(0.4, 0, 0.3)
    check = GoalCheck(POLICY, start, start, start.position_m, None)
    for goal, reason in (
        (pose(0.4, 0, 0.33), "its step is larger than 20 mm"),
        (pose(0.4, 0, 0.3, (0.2, 0, 0)), "its turn is larger than 0.10 rad"),
        (pose(np.nan, 0, 0.3), "it is not finite"),
        (Pose(start.position_m, 2 * DOWN), "its rotation is none"),
    ):
        assert refused(check, goal) == reason
    for at, to, reason in (
        ((0.49, 0, 0.1), (0.505, 0, 0.1), "it goes through shelf"),
        ((0.45, 0, 0.1), (0.46, 0, 0.1), "its hand goes into shelf"),
        ((0.4, 0, 0.02), (0.4, 0, 0.005), "its hand goes below the floor"),
        ((0.4, 0.49, 0.3), (0.4, 0.505, 0.3), "it leaves the workspace"),
        ((0.6, 0, 0.19), (0.6, 0, 0.18), "it goes deeper into shelf"),
    ):
        table = replace(POLICY, floor_m=0.0)
        near = GoalCheck(table, pose(*at), pose(*at), np.array(at), None)
        assert refused(near, pose(*to)) == reason


TABLE = replace(POLICY, keep_out=(), floor_m=0.0)
BRACKET = HandPart("bracket", (0.03, -0.05, -0.19), (0.11, 0.05, -0.10))


def walk(g, tip, goal, ticks):
    """Ask an arm that follows exactly for a goal; where it came, and the notes."""
    notes = []
    for _ in range(ticks):
        ruling = g.rule({"arm": state(tip)}, {"arm": goal})
        assert ruling.stopped == ""
        tip = ruling.goals["arm"]
        notes += ruling.notes
        assert placed(surface(g._policy.hand("arm")), [tip])[..., 2].min() > -1e-6
    return tip, set(notes)


def test_a_hand_that_turns_low_over_the_table_is_raised():
    tip, forward = pose(0.4, 0, 0.02), Pose(np.array([0.4, 0, 0.02]), FORWARD)
    there, notes = walk(guard(TABLE), tip, forward, 40)
    assert angle_between(there.rotation, FORWARD) < 1e-6
    assert there.position_m == pytest.approx((0.4, 0, 0.045))  # as high as the wrist is thick
    assert "wrist held above the floor" in notes
    down, notes = walk(guard(TABLE), tip, pose(0.4, 0, -0.1), 10)
    assert down.position_m[2] == pytest.approx(0.0125)  # its pads reach so far beyond the tip
    assert notes >= {"held at the box", "fingers held above the floor"}


def test_a_camera_bracket_and_open_fingers_count():
    back = Pose(np.array([0.4, 0, 0.02]), rotation_matrix(np.array([0, np.pi / 2, 0])) @ DOWN)
    low, _ = walk(guard(TABLE), pose(0.4, 0, 0.02), back, 40)
    hand = (*TABLE.hand("arm"), BRACKET)
    high, notes = walk(guard(replace(TABLE, hands={"arm": hand})), pose(0.4, 0, 0.02), back, 40)
    assert low.position_m[2] == pytest.approx(0.045)
    assert high.position_m[2] == pytest.approx(0.11)
    assert "bracket held above the floor" in notes
    side = Pose(np.array([0.4, 0, 0.02]), rotation_matrix(np.array([np.pi / 2, 0, 0])) @ DOWN)
    aside, notes = walk(guard(TABLE), pose(0.4, 0, 0.02), side, 40)
    assert aside.position_m[2] == pytest.approx(0.102)  # a palm on its edge
    assert "palm held above the floor" in notes


def test_the_approach_tilts_no_farther_than_allowed_and_may_come_back():
    g, up = guard(replace(TABLE, max_tilt_deg=30)), (0.0, 2.5, 0.4)
    tip, notes = walk(g, pose(0.4, 0, 0.3), pose(0.4, 0, 0.3, up), 40)
    assert np.degrees(tilt_rad(tip.rotation)) == pytest.approx(30)
    assert "tilt held at 30 deg" in notes
    tilted = pose(0.4, 0, 0.3, (0, 0.8, 0))  # a person left it so
    farther, _ = walk(guard(replace(TABLE, max_tilt_deg=30)), tilted, pose(0.4, 0, 0.3, up), 3)
    assert tilt_rad(farther.rotation) <= 0.8 + 1e-6
    back, notes = walk(guard(replace(TABLE, max_tilt_deg=30)), tilted, pose(0.4, 0, 0.3), 12)
    assert angle_between(back.rotation, DOWN) < 1e-6
    assert notes == {"turn cut to 6 deg"}


def test_a_hand_that_is_already_below_the_floor_only_comes_up():
    pushed = pose(0.4, 0, 0.0)
    g = guard(TABLE)
    for wanted in (pose(0.4, 0, -0.01), pose(0.4, 0, 0.0, (0, 0.1, 0)), pose(0.4, 0, 0.005)):
        ruling = g.rule({"arm": state(pushed)}, {"arm": wanted})
        assert ruling.stopped == ""
        assert one(ruling)[2] > 0.0


def test_an_arm_that_hangs_below_the_floor_is_led_no_lower():
    g = guard(TABLE)
    g.rule({"arm": state(pose(0.4, 0, 0.03))}, {"arm": pose(0.4, 0, 0.025)})
    ruling = g.rule({"arm": state(pose(0.4, 0, 0.01))}, {"arm": pose(0.41, 0, 0.02)})
    assert np.allclose(one(ruling), (0.41, 0, 0.025))
    assert ruling.notes == ("fingers held above the floor",)


def test_distances_of_a_hand_agree_with_many_points():
    rng = np.random.default_rng(1)
    hand = (*TABLE.hand("arm"), BRACKET)
    for _ in range(60):
        turned = rotation_matrix(rng.normal(0, 1.5, 3)) @ DOWN
        at = Pose(rng.uniform((0.3, -0.7, 0.0), (0.7, 0.7, 0.4)), turned)
        gaps = hull_of(hand).gaps_m(0.0, (SHELF,), at.position_m[None], turned[None])[0]
        for part, floor_m, off_m in zip(hand, *gaps, strict=True):
            points = placed(surface((part,)), [at])[0]
            outside = np.linalg.norm(points - np.clip(points, SHELF.lower_m, SHELF.upper_m), axis=1)
            assert points[:, 2].min() - 0.006 < floor_m < points[:, 2].min() + 1e-9
            assert off_m <= outside.min() + 1e-9  # never said to be farther off than it is
            assert off_m > 0.0 or outside.min() < 0.01


def test_shapes_agree_with_many_points():
    rng = np.random.default_rng(0)
    part = np.linspace(0, 1, 201)[:, None]
    for _ in range(40):
        a, b, c, d = rng.uniform((0.3, -0.7, -0.1), (0.9, 0.7, 0.4), (4, 3))
        ab, cd = a + part * (b - a), c + part * (d - c)
        near = np.linalg.norm(ab[:, None, :] - cd[None], axis=2).min()
        assert segments_apart_m((a, b), (c, d)) == pytest.approx(near, abs=6e-3)
        inside = ((ab > SHELF.lower_m) & (ab < SHELF.upper_m)).all(axis=1)
        first = part[np.argmax(inside), 0] if inside.any() else 1.0
        assert way_until(SHELF, a, b) == pytest.approx(first, abs=0.01)


def test_an_arm_that_someone_moved_begins_where_it_is():
    g = guard()
    g.rule({"arm": state(pose(0.4, 0, 0.3))}, {"arm": pose(0.41, 0, 0.3)})
    there = {"arm": state(pose(0.4, 0.2, 0.3))}
    g.settled(there)
    assert np.allclose(one(g.rule(there, {"arm": pose(0.4, 0.21, 0.3)})), (0.4, 0.21, 0.3))
