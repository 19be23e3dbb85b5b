"""The expert of a simulated room: reads where everything stands from the room's side channel and
plans from that. A stand-in for a person's demonstrations; nothing of it reaches a method.
"""

from __future__ import annotations

import functools
import math

import mujoco
import numpy as np

from capex.plan import ArmTarget, Waypoint, down, line, path, waypoints
from capex.pose import Array
from capex.rigs.env import RigFileEnv
from capex.rigs.twins.scenes import Handling, load_scene, scene_name
from capex.rigs.twins.scenes.common import FINGERS, touched_by, underside_m
from capex.worlds import Env

HOVER_M = 0.12  # of the tip over a grasp or a release: what is held clears what stands there
LIFT_M = 0.15  # of the tip over the grasp: 8 cm are asked for


def plan(env: Env, decisions: int) -> list[Waypoint]:
    """The next waypoints from the truth, in the base frame: grasp and lift; with the thing in hand,
    carry and let go. None where the task is achieved.
    """
    assert isinstance(env, RigFileEnv)
    hand = env.room_hand()
    if hand.judge()[0]:
        return []
    name, task = scene_name(env.rig.room), env.spec.task
    model = _model(name, task)
    data = mujoco.MjData(model)
    truth = hand.truth()
    data.qpos[:], data.qvel[:] = truth[: model.nq], truth[model.nq :]
    mujoco.mj_forward(model, data)
    how = load_scene(name).expert[task]
    if not isinstance(how, Handling):
        return how(model, data)
    return waypoints(env.spec.arms[0].name, steps(model, data, how))


@functools.lru_cache(maxsize=4)
def _model(scene: str, task: str) -> mujoco.MjModel:
    return load_scene(scene).build(task)


def steps(model: mujoco.MjModel, data: mujoco.MjData, how: Handling) -> list[ArmTarget]:
    """What to do next, given where everything is."""
    if not touched_by(model, data, how.thing) >= FINGERS:
        return _pick(model, data, how)
    tip_m = data.site("tip").xpos.copy()
    if how.support is None:
        return line(tip_m, _higher(tip_m, LIFT_M))
    return _place(model, data, how, tip_m)


def _pick(model: mujoco.MjModel, data: mujoco.MjData, how: Handling) -> list[ArmTarget]:
    body, tip_m = data.body(how.thing), data.site("tip").xpos.copy()
    yaw = 0.0
    if how.faces:  # the nearest pair
        yaw = math.atan2(body.xmat[3], body.xmat[0])
        yaw = (yaw + math.pi / 4) % (math.pi / 2) - math.pi / 4
    grasp_m = np.array([*body.xpos[:2], underside_m(model, data, how.thing) + how.grasp_m])
    over_m, lifted_m = _higher(grasp_m, HOVER_M), _higher(grasp_m, LIFT_M)
    return [
        ArmTarget(gripper="open"),
        *path(tip_m, [_level(tip_m, over_m), over_m], down(yaw)),
        *line(over_m, grasp_m, "keep", "close"),
        *line(grasp_m, lifted_m),
    ]


def _place(
    model: mujoco.MjModel, data: mujoco.MjData, how: Handling, tip_m: Array
) -> list[ArmTarget]:
    assert how.support is not None
    held_m, support_m = data.body(how.thing).xpos, data.body(how.support).xpos
    lower_m = underside_m(model, data, how.support) + how.release_m
    fall_m = underside_m(model, data, how.thing) - lower_m
    release_m = tip_m + np.array([*(support_m - held_m)[:2], -fall_m])
    over_m = _higher(release_m, HOVER_M)
    return [
        *path(tip_m, [_level(tip_m, over_m), over_m]),
        *line(over_m, release_m, "keep", "release"),
        *line(release_m, over_m),
    ]


def _higher(point_m: Array, by_m: float) -> Array:
    return np.array([*point_m[:2], point_m[2] + by_m])


def _level(point_m: Array, with_m: Array) -> Array:
    """A point, no lower than another."""
    return np.array([*point_m[:2], max(point_m[2], with_m[2])])
