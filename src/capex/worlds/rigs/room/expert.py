"""A scripted plan from the truth, and a loop that follows it: shows that the room's tasks can be
solved. Nothing else may use it.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from capex.plan import ArmTarget, at, down, line, orientation_matrix
from capex.pose import Array, rotation_matrix, rotation_vector
from capex.worlds.kitchen.control import CONTROL_EVERY, SUBSTEPS
from capex.worlds.kitchen.robot import FINGER_TRAVEL_M
from capex.worlds.kitchen.tip_control import TipController, actuators
from capex.worlds.rigs.room.scenes.blocks import OBJECTS, TABLE
from capex.worlds.rigs.room.scenes.common import TABLE_TOP_M

HOVER_M = 0.12  # over the table, clear of everything on it
LIFT_M = 0.15  # of the tip over the grasp: 8 cm are asked for
DROP_M = 0.003  # above its support a block is let go
STEP_M, STEP_RAD = 0.01, 0.05  # a tick: 20 cm/s
SETTLE_TICKS = 10  # half a second after each target
GRIP_TICKS = 12
UP = np.array([0.0, 0.0, 1.0])


def plan(data: mujoco.MjData, task: str) -> list[ArmTarget]:
    """From the home pose: over the block, down, close, lift, and where asked over the support,
    down, let go, up.
    """
    block = data.body("red block")
    yaw = math.atan2(block.xmat[3], block.xmat[0])
    yaw = (yaw + math.pi / 4) % (math.pi / 2) - math.pi / 4  # the nearest pair of faces
    grasp = np.array([*block.xpos[:2], TABLE_TOP_M + OBJECTS["red block"].origin_m])
    over, up = grasp + HOVER_M * UP, grasp + LIFT_M * UP
    targets = [at(over, down(yaw), "open"), *line(over, grasp, "keep", "close"), *line(grasp, up)]
    TABLE.require_task(task)
    if task == "LiftBlock":
        return targets
    name = "blue plate" if task == "BlockOnPlate" else "green block"
    support = data.body(name).xpos
    top_m = float(support[2]) + OBJECTS[name].origin_m + OBJECTS["red block"].origin_m
    release = np.array([*support[:2], top_m + DROP_M])
    above = release + HOVER_M * UP
    carry, lower = line(up, above), line(above, release, "keep", "release")
    return [*targets, *carry, *lower, *line(release, above)]


def perform(model: mujoco.MjModel, data: mujoco.MjData, targets: list[ArmTarget]) -> None:
    """Follow targets open-loop, from the pose that the arm is in."""
    controller, fingers = TipController(model), actuators(model, ("finger_left", "finger_right"))
    mujoco.mj_forward(model, data)
    controller.reset(data)
    for target in targets:
        goal_R = orientation_matrix(target.orientation, controller.goal_rotation)
        position = target.position_m or controller.goal_position_m
        _go(model, data, controller, np.array(position), goal_R)
        if target.gripper != "keep":
            closes = target.gripper in ("close", "reclose")
            data.ctrl[fingers] = 0.0 if closes else FINGER_TRAVEL_M
            for _ in range(GRIP_TICKS):
                _tick(model, data, controller)


def _go(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    controller: TipController,
    position_m: Array,
    rotation: Array,
) -> None:
    """Move the goal straight to a pose, tick by tick, and let the arm follow."""
    start_m, start_R = controller.goal_position_m, controller.goal_rotation
    turn = rotation_vector(rotation @ start_R.T)
    way_m, way_rad = float(np.linalg.norm(position_m - start_m)), float(np.linalg.norm(turn))
    ticks = max(1, math.ceil(max(way_m / STEP_M, way_rad / STEP_RAD)))
    for tick in range(1, ticks + SETTLE_TICKS + 1):
        part = min(1.0, tick / ticks)
        controller.goal_position_m = start_m + part * (position_m - start_m)
        controller.goal_rotation = rotation_matrix(part * turn) @ start_R
        _tick(model, data, controller)


def _tick(model: mujoco.MjModel, data: mujoco.MjData, controller: TipController) -> None:
    """A control step of 50 ms; poses and contacts are current afterwards."""
    for block in range(SUBSTEPS // CONTROL_EVERY):
        if block:
            mujoco.mj_step1(model, data)
        controller.run(model, data, first=block == 0)
        mujoco.mj_step2(model, data)
        mujoco.mj_step(model, data, CONTROL_EVERY - 1)
    mujoco.mj_step1(model, data)
