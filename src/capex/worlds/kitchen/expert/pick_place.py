"""Pick a thing and place it, with the hand pointing down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from capex.plan import Waypoint
from capex.pose import Array
from capex.worlds.kitchen.expert.moves import at, base_pose, ceiling, down_with_yaw, line, path, raised, tip_of, to_base
from capex.worlds.kitchen.robot import ARM
from capex.worlds.kitchen.things import FOOD

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

HOVER_M = 0.10
CARRY_M = 0.17  # height of the carried thing's middle over the container
LIFT_M = 0.14
TALL_M = 0.04
GRASP_BELOW_TOP_M = 0.014


def pick_place(env: KitchenEnv, decision: int) -> list[Waypoint]:
    """Take the object from above and set it into its container."""
    facts, state = env.facts, env.robot_state().arms[ARM]
    item, container = facts.role("object"), facts.role("container")
    tip, thing = tip_of(env), to_base(env, facts.position(item))
    place = to_base(env, facts.position(container))
    half = facts.half_height(item)
    if item in state.held:
        return _carry(tip, thing, place, half)
    if facts.touching(item, container) and facts.distance_xy(item, container) < 0.07:
        return retreat(tip)
    axis = facts.rotation(item)[:, 0]
    yaw = math.atan2(axis[1], axis[0]) - base_pose(env)[2]
    round_thing = item in FOOD and FOOD[item].shape == "ball"
    orientation = down_with_yaw(0.6 * (decision // 2) if round_thing else yaw + 0.35 * (decision // 3))
    # Tall things are taken near their top, low ones around their middle.
    grasp = thing + np.array([0, 0, max(half - GRASP_BELOW_TOP_M, -0.004) if half > TALL_M else -0.004])
    hover = raised(grasp, HOVER_M)
    above = np.array([tip[0], tip[1], max(tip[2], min(hover[2] + 0.03, ceiling(tip)))])
    approach = [at(above, orientation, "open"), *line(above, hover, orientation)]
    return [*approach, *line(hover, grasp, orientation, "close"), *line(grasp, raised(grasp, LIFT_M))]


def _carry(tip: Array, thing: Array, place: Array, half: float) -> list[Waypoint]:
    """Bring what is held over the container, lower it, let go, retreat."""
    hang = tip - thing  # how the object hangs in the hand
    target = place + hang + np.array([0, 0, half + 0.022])
    up, over = raised(tip, place[2] + hang[2] + CARRY_M - tip[2]), raised(target, CARRY_M - half)
    over[2] = max(over[2], min(up[2], ceiling(over)))
    return [*line(tip, up), *line(up, over), *line(over, target, "keep", "release"), *retreat(target)]


def retreat(tip: Array) -> list[Waypoint]:
    """Up, then back towards the robot: over 25 cm away from what was let go."""
    up = raised(tip, 0.12)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, 0.0])
    back[2] = min(up[2] + 0.12, ceiling(back))
    return path(tip, [up, back])
