"""The robots: a Panda on a mobile base (RoboCasa's 12 numbers) or a pedestal (robosuite's 7), and
two on pedestals side by side (twice 7).

Native action: tip dx dy dz (x 0.05 m) | axis-angle (x 0.5 rad), base frame | gripper -1 open, +1
close; on the mobile base also velocities forward, left and yaw | torso | mode (<= 0 arm, > 0 base).
Arm mode anchors the goal to the achieved pose, base mode to the goal before it.

Hold. A zero action in arm mode lets a load sink. The mobile robot holds in base mode; the fixed
one, which has no modes, servoes towards the goal that its controller was given last. The first step
of an episode has no goal yet in the base frame (robosuite leaves one in the world's), so it is
taken in arm mode: the goal becomes the pose in which the episode begins. While the base turns,
robosuite's controller brakes the tip as if the mount did not rotate, and the tip would trail by
centimetres; the goal leads by as much, and comes back after.

Base motion. robosuite 1.5.2 turns a base command by the base's yaw in the wrong direction, so that
after a quarter turn "forward" drives backward; RoboCasa's legacy controller turns it in the right
one. The controller is asked what it makes of two unit commands, and the command that gives the
wanted velocity is solved for: it comes out right with either, and the recorded numbers are the
controller's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capex.errors import BadCommand, CapexError, ErrorCode
from capex.pose import Array, Pose, rotation_vector
from capex.worlds import ArmCommand, ArmSpec, BaseSpec, Command

STEP_M = 0.05
STEP_RAD = 0.5
ARM_NAMES = ("eef_dx", "eef_dy", "eef_dz", "eef_rx", "eef_ry", "eef_rz", "gripper")
BASE_NAMES = ("base_vx", "base_vy", "base_wz", "torso", "mode")
_TIP_NAMES = ("eef_x", "eef_y", "eef_z", "eef_qx", "eef_qy", "eef_qz", "eef_qw")
STATE_NAMES = (*_TIP_NAMES, "finger_left", "finger_right")
STANDING = 1e-3  # m/s or rad/s below which the base is not asked to move
PART_SPANS = {"right": (0, 6), "right_gripper": (6, 7), "base": (7, 10), "torso": (10, 11)}
PART_ORDER = tuple(PART_SPANS)
ARM = ArmSpec("arm", max_opening_m=0.08, max_step_m=STEP_M, max_step_rad=STEP_RAD)


@dataclass
class Hand:
    """An arm in a built environment: its controllers, its gripper, and the goal of the last step in
    arm mode, to which a hold returns.
    """

    controllers: Mapping[str, Any]
    gripper: Any
    anchor_m: Array

    @property
    def controller(self) -> Any:
        """robosuite's operational-space controller of the arm."""
        return self.controllers["right"]


@dataclass(frozen=True)
class Robot:
    """A robot of robosuite, and what its native action is made of."""

    name: str
    action_names: tuple[str, ...]
    state_names: tuple[str, ...]
    base: BaseSpec | None
    # In robosuite's order; two are two robots side by side, whose numbers follow each other.
    arms: tuple[ArmSpec, ...] = (ARM,)

    @property
    def placing(self) -> dict[str, Any]:
        """robosuite's own words for the robots and how they stand."""
        if len(self.arms) == 1:
            return {"robots": self.name}
        return {"robots": [self.name] * len(self.arms), "env_configuration": "parallel"}

    def controllers(self, robosuite: Any) -> dict[str, Any]:
        """robosuite's controllers for it; the mobile one's parts in RoboCasa's order."""
        config: dict[str, Any] = robosuite.load_composite_controller_config(robot=self.name)
        if self.base is not None:
            specific = config.setdefault("composite_controller_specific_configs", {})
            specific["body_part_ordering"] = list(PART_ORDER)
        return config

    def checked(self, action: Array) -> Array:
        """A copy of a native action, or BadCommand naming the number that is wrong."""
        count = len(self.action_names)
        try:
            checked = np.array(action, dtype=np.float64)
        except (TypeError, ValueError):
            raise BadCommand(f"the action is {action!r}; it must be {count} numbers") from None
        if checked.shape != (count,):
            needed = f"({count},): {', '.join(self.action_names)}"
            raise BadCommand(f"the action has shape {checked.shape}; it must have shape {needed}")
        for name, value in zip(self.action_names, checked.tolist(), strict=True):
            if not -1.0 <= value <= 1.0:  # also true for NaN
                raise BadCommand(f"action '{name}' is {value}; it must lie between -1 and 1")
        return checked

    def require_order(self, env: Any) -> None:
        """Refuse an environment whose native numbers stand in another order."""
        parts = PART_ORDER if self.base is not None else PART_ORDER[:2]
        needed = {part: PART_SPANS[part] for part in parts}
        for robot in env.robots:
            indexes = robot.composite_controller._action_split_indexes
            given = {part: tuple(span) for part, span in indexes.items()}
            ordered = list(given.items()) == list(needed.items())
            if not ordered or env.action_dim != len(self.action_names):
                spans = f"the environment's native action is {given}; this adapter needs {needed}"
                raise CapexError(f"{spans}: set body_part_ordering", code=ErrorCode.UNSUPPORTED)

    def native(
        self,
        command: Command,
        hands: Mapping[str, Hand],
        sites: Mapping[str, Pose],
        drive: BaseDrive | None,
        *,
        begun: bool,
    ) -> Array:
        """The native action of a checked command.

        `sites` are the grip sites from their own mounts; before the first step has `begun` no goal
        is known to hold.
        """
        velocity = command.base_velocity
        yaw_rate = velocity[2] if velocity is not None else 0.0
        numbers: list[Array] = []
        for name, arm in command.arms.items():
            anchor_m = hands[name].anchor_m if begun else None
            if arm.step_m is None and anchor_m is not None and drive is not None:
                held = _led(anchor_m, yaw_rate, hands[name].controller)
            else:
                held = _towards(arm, anchor_m, hands[name].controller, sites[name])
            numbers.append(np.append(held, arm.gripper))
        if drive is not None:
            (arm,) = command.arms.values()
            mode = 1.0 if arm.step_m is None and begun else -1.0
            driven = drive.command(velocity) if velocity is not None else np.zeros(3)
            numbers.append(np.array([*driven, 0.0, mode]))
        return np.clip(np.concatenate(numbers), -1.0, 1.0)

    def rests_on_goal(self, action: Array) -> bool:
        """Whether an action leaves the goal where the one before it put it: base mode."""
        return self.base is not None and bool(action[11] > 0)


def _towards(arm: ArmCommand, anchor_m: Array | None, controller: Any, site: Pose) -> Array:
    """Six numbers of an arm in arm mode: its step, or back to the goal of the step before."""
    move_m: Array = np.zeros(3)
    turn_rad: Array = np.zeros(3)
    if arm.step_m is not None:
        move_m, turn_rad = np.asarray(arm.step_m), np.asarray(arm.step_rad)
    elif anchor_m is not None:
        move_m = _shortened(anchor_m - site.position_m, STEP_M)
        turn_rad = _shortened(rotation_vector(controller.goal_ori @ site.rotation.T), STEP_RAD)
    return np.concatenate([move_m / STEP_M, turn_rad / STEP_RAD])


def _led(anchor_m: Array, yaw_rate: float, controller: Any) -> Array:
    """Six numbers of an arm that holds in base mode, its goal leading while the base turns."""
    delay_s = controller.kd[:3] / controller.kp[:3]
    lead_m = yaw_rate * delay_s * np.array([-anchor_m[1], anchor_m[0], 0.0])
    move_m = _unless_tiny(anchor_m + lead_m - controller.goal_pos)
    return np.append(move_m / STEP_M, np.zeros(3))


class BaseDrive:
    """The native base numbers for a velocity: robosuite's controller is asked, friction added."""

    def __init__(self, model: Any, data: Any, controller: Any):
        self._data, self._controller = data, controller
        self._forward, self._side = controller.joint_index[:2]
        driven = model.actuator_trnid[:, 0]
        actuators = [int(np.flatnonzero(driven == joint)[0]) for joint in controller.joint_index]
        # Velocities at a native value of 1.
        self._range = 0.5 * (controller.actuator_max - controller.actuator_min)
        # A velocity servo against dry friction falls short by friction over gain, at any velocity.
        friction = model.dof_frictionloss[controller.qvel_index]
        self._shortfall = friction / model.actuator_gainprm[actuators, 0]

    def command(self, velocity: tuple[float, float, float]) -> Array:
        """Native numbers for a velocity (forward, left, yaw) in the base's own frame."""
        # Joints -> velocity on the floor.
        axes = np.stack([self._data.xaxis[j][:2] for j in (self._forward, self._side)], axis=1)
        _, R = self._controller.get_base_pose()
        joints = np.append(np.linalg.solve(axes, R[:2, :2] @ np.asarray(velocity[:2])), velocity[2])
        moving = np.abs(joints) > STANDING
        native = (joints + moving * np.sign(joints) * self._shortfall) / self._range
        native[:2] = np.linalg.solve(self._answers(), native[:2])
        return np.asarray(native)

    def _answers(self) -> Array:
        """What the controller makes of two unit commands now, as columns; it is left as it was."""
        controller = self._controller
        goal, updated = controller.goal_qvel, controller.new_update
        columns = []
        for unit in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
            controller.set_goal(np.array(unit))  # a fresh array: the controller may write into it
            columns.append(np.array(controller.goal_qvel[:2], dtype=np.float64))
        controller.goal_qvel, controller.new_update = goal, updated
        return np.stack(columns, axis=1)


def _unless_tiny(vector: Array) -> Array:
    """Zero instead of what rounding has left."""
    return vector if float(np.abs(vector).max()) > 1e-9 else np.zeros(3)


def _shortened(vector: Array, limit: float) -> Array:
    length = float(np.linalg.norm(vector))
    return vector if length <= limit else vector * (limit / length)


MOBILE_STATE_NAMES = (*STATE_NAMES, "base_x", "base_y", "base_yaw")
MOBILE = Robot("PandaOmron", ARM_NAMES + BASE_NAMES, MOBILE_STATE_NAMES, BaseSpec(0.25, 0.6))
FIXED = Robot("Panda", ARM_NAMES, STATE_NAMES, None)
# robosuite's first robot stands on the right; each box ends 10 cm beyond the middle.
_BOXES = {
    "right": ((0.20, -0.65, -0.105), (0.85, 0.10, 0.55)),
    "left": ((0.20, -0.10, -0.105), (0.85, 0.65, 0.55)),
}
PAIR = Robot(
    "Panda",
    tuple(f"{arm}_{name}" for arm in _BOXES for name in ARM_NAMES),
    tuple(f"{arm}_{name}" for arm in _BOXES for name in STATE_NAMES),
    None,
    tuple(replace(ARM, name=arm, workspace_m=box) for arm, box in _BOXES.items()),
)
