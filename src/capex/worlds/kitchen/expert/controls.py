"""Work controls: buttons, knobs and levers, with closed fingers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from capex.plan import Waypoint
from capex.pose import tilted_forward, yaw_matrix
from capex.worlds.kitchen.expert.moves import FINGERTIP_M, at, base_pose, line, path, tip_of, to_base

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv


def press(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """Push a button in the front of an appliance with closed fingers, then back off."""
    facts = env.facts
    button = facts.role("button")
    tip = tip_of(env)
    heading = base_pose(env)[2]
    forward = tilted_forward(0.0, -heading)  # square to the front, however the robot stands
    face = to_base(env, facts.position(button)) - yaw_matrix(-heading) @ np.array([0.006 + FINGERTIP_M, 0, 0])
    into = yaw_matrix(-heading) @ np.array([1.0, 0, 0])
    if facts.latched:
        return line(tip, tip - 0.19 * into, forward)
    before = face - 0.07 * into
    aside = np.array([min(tip[0], before[0]), before[1], before[2]])
    way = [at(tip, forward, "close"), *path(tip, [aside, before], forward)]
    return [*way, *line(before, face + (0.018 + 0.004 * (decision % 3)) * into, forward)]
