"""Drive to a place: base motion alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from capex.plan import Steps
from capex.worlds.kitchen.expert.moves import base_pose, drive, to_base

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv


def go(env: KitchenEnv, decision: int) -> Steps:
    """One leg towards the goal, turning to its heading on the way."""
    x, y, yaw = env.truth.spot("goal")
    forward, left, _ = to_base(env, (x, y, 0.0))
    turn = math.remainder(yaw - base_pose(env)[2], 2 * math.pi)
    return [drive(forward, left, turn)]
