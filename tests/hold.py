"""Objects put into the hand of a simulated room's arm, without a motion."""

from __future__ import annotations

import mujoco
import numpy as np


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
