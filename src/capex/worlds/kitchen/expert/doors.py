"""Shut doors and open them: side-hinged ones along their arc, flaps by their handle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from capex.plan import Steps, at, line, path
from capex.pose import Array, tilted_forward
from capex.worlds.kitchen.expert import moves
from capex.worlds.kitchen.expert.moves import FINGERTIP_M, base_pose, is_open, tip_of, to_base

if TYPE_CHECKING:
    from capex.worlds.kitchen.env import KitchenEnv


def close_door(env: KitchenEnv, decision: int) -> Steps:
    """Push a side-hinged door shut along its arc, fingers closed and pointing forward."""
    truth = env.truth
    part = truth.role("part")
    tip = tip_of(env)
    hinge = truth.position(part)
    side = -1.0 if truth.model.joint(part).axis[2] > 0 else 1.0  # hinge on the robot's right: -1
    yaw = base_pose(env)[2]
    radius, height, thick = 0.42, 1.16, 0.0275
    if drive := moves.line_up(env, decision, hinge, (-0.70, -side * 0.33, 0), 0.08):
        return drive

    def contact(angle: float, gap: float) -> Array:
        """Tip position at a gap from the outer face, along its normal, at an opening angle."""
        # In the hinge's frame with the door closed along +y (mirrored for a left hinge): direction
        # along the door and outward normal.
        along = np.array([-math.sin(angle), -side * math.cos(angle)])
        normal = np.array([-math.cos(angle), side * math.sin(angle)])
        lean = angle + side * yaw  # between the hand's forward and the push direction
        reach = max(
            0.0125 * math.cos(lean) + 0.02 * abs(math.sin(lean)),
            -0.045 * math.cos(lean) + 0.10 * abs(math.sin(lean)),
        )
        flat = hinge[:2] + radius * along + (thick + reach + gap) * normal
        return to_base(env, (flat[0], flat[1], height))

    angle = truth.joint(part)
    begin = contact(angle, 0.03)
    fingers = [at(tip, "forward", "close")] if is_open(env) else []
    # Lined up in front of the door first, then onto it: the hand must not sweep the door's edge
    # sideways.
    clear, beside = moves.before(tip, begin - np.array([0.02, 0, 0]))
    touching = float(np.linalg.norm(tip - contact(angle, 0.0))) < 0.05
    way = [] if touching else path(tip, [clear, beside, begin], "forward")
    steps = max(1, math.ceil(angle * radius / 0.06))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.012) for k in range(steps)]
    final = [contact(0.0, -0.03)]
    return [*fingers, *way, *path(tip if touching else begin, [*arc, *final], "forward")]


def close_flap(env: KitchenEnv, decision: int) -> Steps:
    """Lift a door hinged along its lower edge by its handle bar, from below, and push it shut."""
    truth = env.truth
    part = truth.role("part")
    tip = tip_of(env)
    hinge, angle = truth.position(part), truth.joint(part)
    forward = tilted_forward(0.0, -base_pose(env)[2])
    if drive := moves.line_up(env, decision, hinge, (-0.70, 0, 0), 0.06):
        return drive

    def contact(angle: float, gap: float) -> Array:
        """Tip position whose fingers touch the handle bar from outside at an opening angle."""
        along = np.array([-math.sin(angle), math.cos(angle)])
        normal = np.array([-math.cos(angle), -math.sin(angle)])
        extent = FINGERTIP_M * math.cos(angle) + 0.011 * math.sin(angle)
        x, z = hinge[[0, 2]] + 0.202 * along + (0.009 + 0.028 + 0.007 + extent + gap) * normal
        return to_base(env, (x + 0.015 * math.sin(angle), hinge[1], z))

    begin = contact(angle, 0.03)
    touching = float(np.linalg.norm(tip - contact(angle, 0.0))) < 0.04
    back, low = moves.before(tip, begin - np.array([0.10, 0, 0]))
    way = [] if touching else path(tip, [back, low, begin], forward)
    fingers = [at(tip, forward, "close")] if is_open(env) else []
    steps = max(1, math.ceil(angle * 0.2 / 0.04))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.02) for k in range(steps)]
    return [*fingers, *way, *path(tip if touching else begin, [*arc, contact(0.0, -0.04)], forward)]


def open_door(env: KitchenEnv, decision: int) -> Steps:
    """Draw a side-hinged door open by its upright handle, the hand pointing forward."""
    truth = env.truth
    part = truth.role("part")
    tip, angle, grip = tip_of(env), truth.joint(part), f"{part} grip"
    forward = tilted_forward(0.0, -base_pose(env)[2])
    side = 1.0 if truth.model.joint(part).axis[2] < 0 else -1.0  # 1: hinge on the robot's left
    if moves.holds(env, part):
        return path(tip, _arc(env, part, angle), forward)
    shut = truth.point_at(grip, part, 0.0)
    if drive := moves.line_up(env, decision, shut, (-0.60, side * 0.12, 0), 0.08):
        return drive
    here = to_base(env, truth.point(grip))
    before = here - np.array([0.09, 0, 0])
    back, beside = moves.before(tip, before)
    way = [at(back, forward, "open"), *path(back, [beside, before], forward)]
    arc = _arc(env, part, angle)
    return [*way, *line(before, here, forward, "close"), *path(here, arc, forward)]


def _arc(env: KitchenEnv, part: str, angle: float) -> list[Array]:
    """Where a door's handle passes on its way open."""
    goal = 0.97 * env.truth.limit(part)
    steps = max(1, math.ceil((goal - angle) / 0.25))
    angles = [angle + (goal - angle) * (k + 1) / steps for k in range(steps)]
    return [to_base(env, env.truth.point_at(f"{part} grip", part, a)) for a in angles]
