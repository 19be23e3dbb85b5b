"""A franky without a robot: the names of franky-control 2.0 that the driver uses, with the refusals
of the real ones and the numbers of a real Panda. What franky checks, and how, was read in its
sources: `validateIsometry`, the seed of its tracker, `Gripper.move`, `Errors`.
"""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np

from capex.pose import DOWN
from capex.rigs.drivers.franka_tip import HAND, PRINTED_HAND


class FrankyException(Exception):
    pass


class CommandException(FrankyException):
    pass


class ControlException(FrankyException):
    pass


class RobotMode(Enum):
    Other, Idle, Move, Guiding, Reflex, UserStopped, AutomaticErrorRecovery = range(7)


class Errors:
    """Properties of a class, one for each error, as pybind11 makes them."""

    def __init__(self, *on: str):
        self._on = on

    cartesian_reflex = property(lambda self: "cartesian_reflex" in self._on)
    joint_velocity_violation = property(lambda self: "joint_velocity_violation" in self._on)


class Affine:
    def __init__(self, matrix: Any):
        self.matrix = np.array(matrix)


class CartesianReference:
    def __init__(self, target: Affine):
        self.target = target


class Force:
    """An expression of franky's reactions; nothing is computed here."""

    def __pow__(self, _: float) -> Force:
        return self

    def __add__(self, _: Force) -> Force:
        return self

    def __gt__(self, _: float) -> Force:
        return self


class CartesianImpedanceTrackingMotion:
    def __init__(self, **params: Any):
        if not np.isfinite(params["translational_stiffness"]):
            raise ValueError("translational_stiffness must be finite")
        self.params, self.reactions = params, 0
        self.target: Any = None

    def set_reference(self, reference: CartesianReference) -> None:
        rotation = reference.target.matrix[:3, :3]
        if np.linalg.norm(rotation.T @ rotation - np.eye(3)) > 1e-6 * np.sqrt(3.0):
            raise ValueError("target must have an orthonormal rotation block")
        self.target = reference.target.matrix

    def add_reaction(self, _: Any) -> None:
        self.reactions += 1


class Robot:
    """Stands still; `end` lets its motion end as a control box does."""

    made: list[Robot] = []  # noqa: RUF012 - the driver makes it, tests look at it

    def __init__(self, address: str, realtime_config: Any):
        Robot.made.append(self)
        self.motions: list[Any] = []
        self.settings: list[Any] = []  # of the control box, which a look must leave alone
        self.is_in_control, self.ended = False, None
        pose, ee = np.eye(4), np.eye(4)
        pose[:3, :3], pose[:3, 3] = DOWN @ HAND.rotation.T @ PRINTED_HAND.rotation, (0.4, 0.0, 0.38)
        ee[:3, :3], ee[:3, 3] = PRINTED_HAND.rotation, PRINTED_HAND.position_m
        self.state = SimpleNamespace(
            O_T_EE=Affine(pose),
            F_T_EE=Affine(ee),
            q=[0.0, -0.5, 0.0, -2.4, 0.0, 1.9, 0.8],
            O_F_ext_hat_K=[2.0, -1.5, 5.45, 0.0, 0.0, 0.0],
            time=SimpleNamespace(to_sec=lambda: 1.0),
            robot_mode=RobotMode.Idle,
            current_errors=Errors(),
            last_motion_errors=Errors(),
        )

    def set_collision_behavior(self, *limits: Any) -> None:
        self.settings.append(limits)

    def move(self, motion: Any, asynchronous: bool) -> None:
        self.motions.append(motion)
        self.is_in_control, self.ended = isinstance(motion, CartesianImpedanceTrackingMotion), None

    def end(self, error: Exception, mode: str = "Idle", *errors: str) -> None:
        self.is_in_control, self.ended = False, error
        self.state.robot_mode = RobotMode[mode]
        self.state.last_motion_errors = Errors(*errors)

    def join_motion(self, timeout: float = 0.0) -> None:
        if self.ended is not None:
            raise self.ended

    def recover_from_errors(self) -> bool:
        self.state.robot_mode, self.ended = RobotMode.Idle, None
        return True


class Gripper:
    """Homed to 0.079 m; a wider goal, and every goal while `refuses` is above 0, is an exception."""

    max_width_m, refuses = 0.079, 0
    made: list[Gripper] = []  # noqa: RUF012 - the driver makes it, tests look at it

    def __init__(self, address: str):
        Gripper.made.append(self)
        self.width_m, self.asked_m = self.max_width_m, list[float]()

    @property
    def state(self) -> SimpleNamespace:
        return SimpleNamespace(width=self.width_m, max_width=self.max_width_m)

    def move(self, width: float, speed: float) -> bool:
        self.asked_m.append(width)
        if width > self.max_width_m or Gripper.refuses > 0:
            Gripper.refuses -= 1
            raise CommandException("libfranka gripper: Command failed!")
        self.width_m = width
        return True

    def grasp(self, width: float, speed: float, force: float, **epsilon: float) -> bool:
        return self.move(width, speed)


def module() -> SimpleNamespace:
    """What `import franky` gives."""
    return SimpleNamespace(
        Exception=FrankyException,
        RealtimeConfig=SimpleNamespace(Enforce=1, Ignore=0),
        Measure=SimpleNamespace(FORCE_X=Force(), FORCE_Y=Force(), FORCE_Z=Force()),
        PostureTask=lambda q, stiffness: (q, stiffness),
        Reaction=lambda condition, motion: (condition, motion),
        TorqueStopMotion=lambda: "stop",
        Affine=Affine,
        CartesianReference=CartesianReference,
        CartesianImpedanceTrackingMotion=CartesianImpedanceTrackingMotion,
        Robot=Robot,
        Gripper=Gripper,
    )
