"""Drive to a place: base motion alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from capex.plan import BaseMotion, Steps
from capex.worlds.kitchen.expert.moves import base_pose, to_base

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

LEG_M = 0.58
TURN_RAD = 1.5


def go(env: KitchenEnv, decision: int) -> Steps:
    """One leg towards the goal, turning to its heading on the way."""
    x, y, yaw = env.truth.spot("goal")
    forward, left, _ = to_base(env, (x, y, 0.0))
    shrink = min(1.0, LEG_M / max(math.hypot(forward, left), 1e-9))
    turn = math.remainder(yaw - base_pose(env)[2], 2 * math.pi)
    return [
        BaseMotion(
            float(shrink * forward), float(shrink * left), max(-TURN_RAD, min(TURN_RAD, turn))
        )
    ]
