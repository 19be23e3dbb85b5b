"""Slide drawers and racks by their grip: pull or push with the arm, then with the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from capex.plan import BaseMotion, Steps, at, down, line, path, raised
from capex.pose import Array
from capex.worlds.kitchen.expert.moves import base_pose, holds, line_up, over, tip_of, to_base

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv

STAND_M = 0.60  # from the mount to a grip before it is taken
NEAREST_M = 0.40  # the arm draws a grip no nearer, and begins to push it no nearer
FARTHEST_M = 0.68  # the arm pushes a grip no farther
OVERSHOOT_M = 0.02  # beyond the stop, so that the part reaches it
BEFORE_GRIP_M = 0.026  # from the middle of a grip to a tip whose fingers touch it from outside


def slide(env: KitchenEnv, decision: int) -> Steps:
    """Out or in, as the instruction wants it."""
    return (pull if env.truth.role("way") == "out" else push)(env, decision)


def pull(env: KitchenEnv, decision: int) -> Steps:
    """Take the grip from above, draw it out as far as the arm goes, then hold it and drive back."""
    truth = env.truth
    part = truth.role("part")
    grip, tip = truth.point(f"{part} grip"), tip_of(env)
    end = truth.point_at(f"{part} grip", part, truth.limit(part) + OVERSHOOT_M)
    goal = to_base(env, end)
    if holds(env, part):
        if tip[0] > NEAREST_M + 0.05:
            share = min(1.0, (tip[0] - NEAREST_M) / max(tip[0] - goal[0], 1e-9))
            return line(tip, tip + (goal - tip) * share)
        return _drive(goal - tip)
    if drive := line_up(env, decision, grip, (-STAND_M, 0, 0), 0.10):
        return drive
    square, here = down(-base_pose(env)[2]), to_base(env, grip)
    above = raised(here, 0.13)
    clear = over(tip, above)
    way = [at(clear, square, "open"), *path(clear, [above], square)]
    out = 0.08 * (goal - here) / float(np.linalg.norm(goal - here))
    return [*way, *line(above, here, square, "close"), at(here + out)]


def push(env: KitchenEnv, decision: int) -> Steps:
    """Lower closed fingers before the grip and push it in with the arm, then with the base."""
    truth = env.truth
    part = truth.role("part")
    grip, tip = truth.point(f"{part} grip"), tip_of(env)
    here, end = to_base(env, grip), to_base(env, truth.point_at(f"{part} grip", part, 0.0))
    into = (end - here) / float(np.linalg.norm(end - here))
    contact, goal = here - BEFORE_GRIP_M * into, end - (BEFORE_GRIP_M - OVERSHOOT_M) * into
    if float(np.linalg.norm(tip - contact)) < 0.03:
        if tip[0] < FARTHEST_M - 0.05:
            share = min(1.0, (FARTHEST_M - tip[0]) / max(goal[0] - tip[0], 1e-9))
            return line(tip, tip + (goal - tip) * share)
        return _drive(goal - tip)
    if drive := line_up(env, decision, grip, (-(NEAREST_M + 0.08), 0, 0), 0.04):
        return drive
    square = down(-base_pose(env)[2])
    before = contact - 0.025 * into
    above = raised(before, 0.13)
    clear = over(tip, above)
    way = [at(clear, square, "close"), *path(clear, [above, before], square)]
    return [*way, *line(before, contact + 0.08 * into)]


def _drive(way: Array) -> Steps:
    """The same motion with the base; the arm holds what it holds."""
    return [BaseMotion(float(np.clip(way[0], -0.55, 0.55)), float(np.clip(way[1], -0.2, 0.2)))]
