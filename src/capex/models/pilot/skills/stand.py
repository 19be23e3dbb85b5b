"""Where to stand: the base motion to a spot on the floor, facing what is to be worked on."""

from __future__ import annotations

import math

import numpy as np

from capex.models.pilot.ground import Drive
from capex.models.pilot.scene import Scene
from capex.pose import Array

DRIVES_MAX = 3
DRIVE_MAX_M = 0.58
TURN_MAX_RAD = 1.5


def drives(scene: Scene) -> int:
    """How many base motions the page shows."""
    return sum(w.base for w in scene.page.told)


def line_up(scene: Scene, stand: Array, into: Array, nearest_m: float) -> Drive | None:
    """The drive to a spot on the floor, facing along `into`; None when the robot stands well enough
    or has tried often enough.
    """
    turn = math.atan2(into[1], into[0])
    if not scene.brief.base_motion or drives(scene) >= DRIVES_MAX:
        return None
    if -nearest_m <= stand[0] <= 0.05 and abs(stand[1]) <= 0.12 and abs(turn) <= 0.20:
        return None
    shrink = min(1.0, DRIVE_MAX_M / max(math.hypot(stand[0], stand[1]), 1e-9))
    return Drive(
        float(shrink * stand[0]),
        float(shrink * stand[1]),
        float(np.clip(turn, -TURN_MAX_RAD, TURN_MAX_RAD)),
    )
