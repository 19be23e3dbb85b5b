"""Waypoints and plans refuse nonsense with a sentence that names the field."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from capex.errors import BadCommand
from capex.plan import LEG_M, ArmTarget, BaseMotion, Plan, Waypoint, at, down, line, path, waypoints

POINT = (0.4, 0.0, 0.5)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ArmTarget((math.nan, 0, 0)), "position_m"),
        (lambda: ArmTarget((0.1, 0.2)), "position_m"),
        (lambda: ArmTarget(("a", 0, 0)), "position_m"),
        (lambda: ArmTarget(POINT, "sideways"), "orientation is 'sideways'"),
        (lambda: ArmTarget(POINT, (0, math.inf, 0)), "orientation"),
        (lambda: ArmTarget(POINT, gripper="squeeze"), "gripper is 'squeeze'"),
        (lambda: BaseMotion(0.5, 0.5), "at most 60 cm"),
        (lambda: BaseMotion(turn_rad=2.0), "at most 90"),
        (lambda: BaseMotion(forward_m=math.nan), "base motion"),
        (lambda: Waypoint({}), "empty"),
        (lambda: Waypoint({"arm": ArmTarget(POINT)}, BaseMotion(0.1)), "beside a target"),
        (lambda: Waypoint({"arm": ArmTarget(POINT)}, confidence=1.2), "confidence is 1.2"),
        (lambda: Plan(()), "1 to 24"),
        (lambda: Plan((Waypoint({"arm": ArmTarget(POINT)}),) * 25), "25 waypoints"),
        (
            lambda: Plan((Waypoint(base=BaseMotion(0.1)), Waypoint({"arm": ArmTarget(POINT)}))),
            "must be alone",
        ),
    ],
)
def test_a_defect_is_refused_with_a_sentence(build, words):
    with pytest.raises(BadCommand, match=words):
        build()


def test_a_base_motion_may_carry_a_gripper_command():
    assert Waypoint({"arm": ArmTarget(gripper="open")}, BaseMotion(0.6)).base is not None


def test_a_line_has_legs_that_the_executor_does_not_shorten_and_ends_with_the_gripper():
    start, end = np.array([0.4, 0.0, 0.2]), np.array([0.4, 0.3, 0.2])
    targets = line(start, end, "down", "close")
    stops = [start, *(np.array(t.position_m) for t in targets)]
    assert max(np.linalg.norm(b - a) for a, b in itertools.pairwise(stops)) <= LEG_M
    assert [t.gripper for t in targets] == ["keep"] * (len(targets) - 1) + ["close"]
    assert np.allclose(stops[-1], end)
    assert np.allclose(path(start, [end, start])[-1].position_m, start)


def test_half_a_turn_is_the_same_grasp():
    assert np.allclose(down(0.3), down(0.3 - math.pi))
    drive, reach = waypoints("arm", [BaseMotion(0.1), at(np.zeros(3))])
    assert drive.base is not None
    assert set(reach.targets) == {"arm"}
