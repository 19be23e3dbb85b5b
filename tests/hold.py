"""Objects put into the hand of a simulated room's arm, without a motion."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import mujoco
import numpy as np

from capex.rigs.hands import Hand


def hold(model, data, thing: str, width_m: float, grasp_m: float = 0.0) -> None:
    """Put a thing between the fingers, which then close on it; they hold it `grasp_m` above its
    frame. The arm stands where it is: its weight is compensated.
    """
    data.joint(thing).qpos[:] = (*data.site("tip").xpos, 1.0, 0.0, 0.0, 0.0)
    data.joint(thing).qpos[2] -= grasp_m
    for finger in ("finger_left", "finger_right"):
        data.joint(finger).qpos[0] = width_m / 2
        data.ctrl[model.actuator(finger).id] = 0.0
    mujoco.mj_step(model, data, 60)


def put_on(model, data, thing: str, position_m, seconds: float = 0.6) -> None:
    """Put a thing at a place, upright, and let it come to rest."""
    data.joint(thing).qpos[:] = (*np.asarray(position_m), 1.0, 0.0, 0.0, 0.0)
    data.joint(thing).qvel[:] = 0.0
    mujoco.mj_step(model, data, round(seconds / model.opt.timestep))


def beyond_hand_m(
    model: mujoco.MjModel, data: mujoco.MjData, bodies: Sequence[str], tip: str, hand: Hand
) -> float:
    """How far the bodies' boxes and cylinders stick out of a guard's hand at a site, metres."""
    site = data.site(tip)
    worst = 0.0
    for body in bodies:
        first, count = int(model.body(body).geomadr[0]), int(model.body(body).geomnum[0])
        for geom in range(first, first + count):
            size, turns = model.geom_size[geom], np.linspace(0, 2 * np.pi, 24, endpoint=False)
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
                points = np.array(list(itertools.product((-1, 1), repeat=3))) * size
            else:
                assert model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CYLINDER
                rim = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=1) * size[0]
                points = np.concatenate([rim + np.array([0, 0, z]) for z in (-size[1], size[1])])
            world = points @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
            local = (world - site.xpos) @ site.xmat.reshape(3, 3)
            out = []
            for part in hand:
                low, high = np.array(part.lower_m), np.array(part.upper_m)
                core = np.clip(local, low + part.round_m, high - part.round_m)
                out.append(np.linalg.norm(local - core, axis=1) - part.round_m)
            worst = max(worst, float(np.min(out, axis=0).max()))
    return worst
