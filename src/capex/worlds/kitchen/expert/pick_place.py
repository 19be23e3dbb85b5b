"""Pick a thing and place it: from above, hand down, or from the front, hand forward."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from capex.plan import BaseMotion, Orientation, Steps, at, ceiling, down, line, path, raised
from capex.pose import Array, tilted_forward, yaw_matrix
from capex.worlds.kitchen.expert import moves
from capex.worlds.kitchen.expert.moves import base_pose, holds, line_up, tip_of, to_base
from capex.worlds.kitchen.objects import FOOD

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

HOVER_M = 0.10  # over a grasp before the hand comes down on it: one leg of a line
CARRY_M = 0.17  # height of the carried thing's middle over the container
LIFT_M = 0.14  # after a grasp: over what else lies on the worktop
TALL_M = 0.04  # a thing of more than this half height is taken near its top
GRASP_BELOW_TOP_M = 0.014  # so that the whole fingertip (12.5 mm) is beside it


def pick_place(env: KitchenEnv, decision: int) -> Steps:
    """Take the object from above and set it into its container, or onto its place."""
    truth = env.truth
    item, container = truth.role("object"), env.situation.roles.get("container")
    tip, thing = tip_of(env), to_base(env, truth.position(item))
    place = to_base(env, truth.spot("place") if container is None else truth.position(container))
    half = truth.half_height(item)
    if holds(env, item):
        return _carry(tip, thing, place, half)
    placed = container is None or truth.touching(item, container)
    if placed and math.hypot(*(thing - place)[:2]) < 0.07:
        return retreat(tip)
    axis = truth.rotation(item)[:, 0]
    yaw = math.atan2(axis[1], axis[0]) - base_pose(env)[2]
    round_thing = item in FOOD and FOOD[item].round
    orientation = down(0.6 * (decision // 2) if round_thing else yaw + 0.35 * (decision // 3))
    # Tall things are taken near their top, low ones around their middle.
    height = max(half - GRASP_BELOW_TOP_M, -0.004) if half > TALL_M else -0.004
    grasp = thing + np.array([0, 0, height])
    hover = raised(grasp, HOVER_M)
    above = np.array([tip[0], tip[1], max(tip[2], min(hover[2] + 0.03, ceiling(tip)))])
    way = [at(above, orientation, "open"), *line(above, hover, orientation)]
    way += line(hover, grasp, orientation, "close")
    return [*way, *line(grasp, raised(grasp, LIFT_M))]


def _carry(tip: Array, thing: Array, place: Array, half: float) -> Steps:
    """Bring what is held over the container, lower it, let go, retreat."""
    hang = tip - thing  # how the object hangs in the hand
    target = place + hang + np.array([0, 0, half + 0.022])
    up, over = raised(tip, place[2] + hang[2] + CARRY_M - tip[2]), raised(target, CARRY_M - half)
    over[2] = max(over[2], min(up[2], ceiling(over)))
    return [*path(tip, [up, over]), *line(over, target, "keep", "release"), *retreat(target)]


def retreat(tip: Array) -> Steps:
    """Up, then back towards the robot: over 25 cm away from what was let go."""
    up = raised(tip, 0.12)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, 0.0])
    back[2] = min(up[2] + 0.12, ceiling(back))
    return path(tip, [up, back])


TAKE_M = 0.50  # how far ahead a thing is when it is taken with the hand pointing forward
CLEAR_OF_JUG_M = 0.15  # a lid in the hand passes beside the jug at this distance from its axis
DRAWER_STAND_M = 0.42  # from the mount to what lies in a drawer
COVER_STAND_M = 0.36  # from the mount to a jug: nearer, the hand reaches higher
REACH_M = 0.73  # how far ahead one is set down


def shelve(env: KitchenEnv, decision: int) -> Steps:
    """Take a standing thing from the front and set it down on a shelf, hand forward."""
    truth = env.truth
    item = truth.role("object")
    tip, corners = tip_of(env), truth.corners(item)
    low, high = corners.min(axis=0), corners.max(axis=0)
    place = to_base(env, truth.spot("place"))
    bottom = to_base(env, [*truth.position(item)[:2], low[2]])
    heading = base_pose(env)[2]
    forward, into = tilted_forward(0.0, -heading), yaw_matrix(-heading) @ np.array([1.0, 0, 0])
    if holds(env, item):
        return _set_down(tip, place + (tip - bottom), into, forward)
    if float(np.hypot(*(bottom - place)[:2])) < 0.05 and abs(bottom[2] - place[2]) < 0.06:
        return line(tip, tip - 0.10 * into, forward)
    if drive := line_up(env, decision, truth.position(item), (-TAKE_M, 0, 0), 0.03):
        return drive
    grasp = bottom + np.array([0, 0, min(max(0.6 * (high[2] - low[2]), 0.06), 0.10)])
    before = grasp - 0.11 * into
    back, beside = moves.before(tip, before)
    way = [at(back, forward, "open"), *path(back, [beside, before], forward)]
    way += line(before, grasp, forward, "close")
    return [*way, *line(grasp, grasp + np.array([0, 0, 0.06]), forward)]


def _set_down(tip: Array, target: Array, into: Array, forward: Orientation) -> Steps:
    """Bring what is held before its place, by the base if the arm is short; in, down, away."""
    height = max(tip[2], target[2] + 0.035)
    across = target - tip - into * float((target - tip) @ into)
    if abs(across[1]) > 0.03 or tip[2] < target[2] + 0.02:
        up = np.array([tip[0], tip[1], height])
        return path(tip, [up, np.array([tip[0] + across[0], tip[1] + across[1], height])], forward)
    if target[0] > REACH_M + 0.02:
        return [BaseMotion(float(min(0.5, target[0] - REACH_M)))]
    over = np.array([target[0], target[1], height])
    if float(np.linalg.norm(over - tip)) < 0.03:  # near enough, however the load makes the arm sag
        over = tip
    low = target + np.array([0, 0, 0.008])
    way = path(tip, [over], forward) if over is not tip else []
    away = line(low, low - 0.30 * into, forward)
    return [*way, *line(over, low, forward, "release"), *away]


def cover(env: KitchenEnv, decision: int) -> Steps:
    """Take a lid by its knob, bring it over the jug and set it down."""
    truth = env.truth
    lid = truth.role("object")
    rim = truth.point("jug rim")
    tip, origin, target = tip_of(env), to_base(env, truth.position(lid)), to_base(env, rim)
    if holds(env, lid):
        low = target + (tip - origin) + np.array([0, 0, 0.012])
        over = raised(low, 0.045)
        aside = _beside(target, tip, over[2] - target[2])
        near = float(np.linalg.norm((tip - over)[:2])) < CLEAR_OF_JUG_M
        up = [raised(tip, over[2] - tip[2])] if near else [raised(tip, 0.10), aside]
        return [*path(tip, [*up, over]), *line(over, low, "keep", "release"), *retreat(low)]
    if float(np.linalg.norm(origin - target)) < 0.03 and truth.tilt(lid) < 0.10:
        return retreat(tip)
    if drive := line_up(env, decision, rim, (-COVER_STAND_M, 0, 0), 0.04):
        return drive
    axis = truth.rotation(lid)[:, 0]
    orientation = down(math.atan2(axis[1], axis[0]) - base_pose(env)[2])
    grasp = to_base(env, truth.point(f"{lid} grip"))
    hover = raised(grasp, HOVER_M)
    above = np.array([tip[0], tip[1], max(tip[2], min(target[2] + 0.05, ceiling(tip)))])
    beside = _beside(target, grasp, 0.05)  # over the jug's edge first, then down to the lid
    approach = [at(above, orientation, "open"), *path(above, [beside, hover], orientation)]
    return [*approach, *line(hover, grasp, orientation, "close"), *line(grasp, raised(grasp, 0.10))]


def _beside(jug: Array, towards: Array, above_m: float) -> Array:
    """A point beside a jug towards another point, above its rim as far as the arm can."""
    way = (towards - jug)[:2]
    x, y = jug[:2] + way * (CLEAR_OF_JUG_M / max(float(np.linalg.norm(way)), 1e-9))
    return np.array([x, y, min(jug[2] + above_m, ceiling(np.array([x, y, 0.0])))])


def out_of_drawer(env: KitchenEnv, decision: int) -> Steps:
    """Line up with what lies in a drawer, then pick it and place it."""
    truth = env.truth
    item = truth.role("object")
    taken = holds(env, item) or truth.position(item)[2] > truth.spot("place")[2]
    drive = line_up(env, decision, truth.position(item), (-DRAWER_STAND_M, 0, 0), 0.05)
    return drive if drive and not taken else pick_place(env, decision)
