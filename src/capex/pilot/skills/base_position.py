"""Where to stand: the base motion to a spot on the floor, facing what is to be worked on."""

from __future__ import annotations

import math

import numpy as np

from capex.pilot.grounding import Drive, heading
from capex.pilot.scene import Scene
from capex.pose import Array

DRIVES_MAX = 3  # of an episode: each costs a decision, and the third has lined up or none will
DRIVE_MAX_M = 0.58  # a little less than the 60 cm that the tools allow
TURN_MAX_RAD = 1.5  # a little less than the quarter turn that the tools allow


def may_drive(scene: Scene, most: int = DRIVES_MAX) -> bool:
    """Whether the base can be driven and has not been driven often enough."""
    return scene.brief.base_motion and scene.page.drives < most


def line_up(scene: Scene, stand: Array, into: Array, nearest_m: float) -> Drive | None:
    """The drive to a spot on the floor, facing along `into`; None when the robot stands well enough
    or has tried often enough.
    """
    turn = heading(into)
    well = -nearest_m <= stand[0] <= 0.05 and abs(stand[1]) <= 0.12 and abs(turn) <= 0.20
    return None if well or not may_drive(scene) else _bounded(stand[0], stand[1], turn)


def bring_ahead(
    scene: Scene, point: Array, ahead_m: tuple[float, float, float], aside_m: float, turn: float = 0
) -> Drive | None:
    """The drive that brings a point in front of the robot, turned by an angle: not nearer and not
    farther than two bounds, else to the middle distance.
    """
    nearest, middle, farthest = ahead_m
    well = nearest <= point[0] <= farthest and abs(point[1]) <= aside_m and abs(turn) <= 0.30
    if well or not may_drive(scene):
        return None
    return _bounded(point[0] - math.cos(turn) * middle, point[1] - math.sin(turn) * middle, turn)


def _bounded(forward_m: float, left_m: float, turn_rad: float) -> Drive:
    """That drive, or as much of it as one motion may do."""
    shrink = min(1.0, DRIVE_MAX_M / max(math.hypot(forward_m, left_m), 1e-9))
    turn_rad = float(np.clip(turn_rad, -TURN_MAX_RAD, TURN_MAX_RAD))
    return Drive(float(shrink * forward_m), float(shrink * left_m), turn_rad)
