"""Work controls: buttons, knobs and levers, with closed fingers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from capex.plan import Steps, at, line, path, raised
from capex.pose import DOWN, FORWARD, matrix_to_euler, tilted_forward, yaw_matrix
from capex.worlds.kitchen.expert import moves
from capex.worlds.kitchen.expert.moves import FINGERTIP_M, base_pose, tip_of, to_base

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

# Half extents of the closed fingers in the tip frame.
FINGERS_HALF_M = np.array([0.011, 0.019, FINGERTIP_M])
GAP_M = 0.022  # between fingers and part before they touch
PRESS_M = 0.02  # how far behind a part's surface the fingers are sent: the servo makes it a force
TOUCHING_M = 0.012  # nearer than this to where it touches a part, the tip goes on pushing
Push = Literal["sideways", "down", "up"]


def press(env: KitchenEnv, decision: int) -> Steps:
    """Push a button in the front of an appliance with closed fingers, then back off."""
    truth = env.truth
    button = truth.role("button")
    tip = tip_of(env)
    heading = base_pose(env)[2]
    forward = tilted_forward(0.0, -heading)  # square to the front, however the robot stands
    into = yaw_matrix(-heading) @ np.array([1.0, 0, 0])
    face = to_base(env, truth.position(button)) - (0.006 + FINGERTIP_M) * into
    if truth.latched:
        return line(tip, tip - 0.19 * into, forward)
    before = face - 0.07 * into
    aside = np.array([min(tip[0], before[0]), before[1], before[2]])
    way = [at(tip, forward, "close"), *path(tip, [aside, before], forward)]
    return [*way, *line(before, face + (0.018 + 0.004 * (decision % 3)) * into, forward)]


def operate(
    env: KitchenEnv, decision: int, push: Push, to: float, stand_m: float, half_m: float = 0.009
) -> Steps:
    """Push a part by its grip until its joint stands at a fraction of its range, with closed
    fingers.

    Sideways and down with the hand pointing down, up with the hand pointing forward. `stand_m` is
    how far before the grip the robot stands, `half_m` half the thickness of the grip.
    """
    truth = env.truth
    part = truth.role("part")
    grip, now, goal = f"{part} grip", truth.joint(part), to * truth.limit(part)
    if drive := moves.line_up(env, decision, truth.point(grip), (-stand_m, 0, 0), 0.05):
        return drive
    heading = base_pose(env)[2]
    R_base_tip = yaw_matrix(-heading) @ (FORWARD if push == "up" else DOWN)
    hand = matrix_to_euler(R_base_tip)
    tip, here = tip_of(env), to_base(env, truth.point(grip))
    end = to_base(env, truth.point_at(grip, part, goal))
    vertical = np.array([0, 0, 1.0 if push == "up" else -1.0])
    way = (end - here) * (1, 1, 0) if push == "sideways" else vertical
    way = way / float(np.linalg.norm(way))
    reach = float(np.abs(R_base_tip.T @ way) @ FINGERS_HALF_M) + half_m
    begin = here - (reach + GAP_M) * way
    steps = max(1, math.ceil(float(np.linalg.norm(end - here)) / 0.05))
    values = [now + (goal - now) * (k + 1) / steps for k in range(steps)]
    pushed = [to_base(env, truth.point_at(grip, part, v)) - (reach - PRESS_M) * way for v in values]
    if push == "sideways":  # the fingers stay at the height at which they touch
        pushed = [np.array([p[0], p[1], begin[2]]) for p in pushed]
    pushed.append(pushed[-1] + 0.012 * way)
    if float(np.linalg.norm(tip - (here - reach * way))) < TOUCHING_M:
        return path(tip, pushed, hand)
    if push == "up":
        clear, low = moves.before(tip, begin - np.array([0.12, 0, 0]))
        return [at(clear, hand, "close"), *path(clear, [low, begin, *pushed], hand)]
    above = raised(begin, 0.12)
    clear = moves.over(tip, above)
    return [at(clear, hand, "close"), *path(clear, [above, begin, *pushed], hand)]
