"""A Franka through franky (libfranka): `driver = "franky"`, the extra `franka`.

The tip follows its goal by impedance: a controller in franky's own thread, 1000 times a second,
reads the goal that was set last. It goes on without us, so holding needs no heartbeat, and it never
ends by itself: `close` ends it by franky's TorqueStopMotion, after which the control box holds.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import CapexError, RigFault
from capex.pose import Pose
from capex.worlds.rigs.drivers import ArmFacts, ArmReading
from capex.worlds.rigs.franka_tip import (
    JOINT_LIMITS_RAD,
    JOINTS,
    MAX_OPENING_M,
    force_on_arm_n,
    require_hand,
)
from capex.worlds.rigs.franky_hand import FrankyHand
from capex.worlds.rigs.franky_options import FrankyOptions, read_options
from capex.worlds.rigs.franky_words import error_words, why_not_connected

DESK_PORT = 443  # of a control box; its FCI takes one client, and a look must not count as one
LOOK_S = 5.0
BOX_S = 0.5  # until a reflex stands in the control box's state
ERROR_CLIP_M, ERROR_CLIP_RAD = 0.05, 0.4  # what the impedance pulls by, at most
POSTURE_NM_RAD = 10.0
_WHEN_WE_DIE = (
    "the control box misses its commands within some milliseconds, stops the arm"
    " (communication_constraints_violation) and holds it; the gripper keeps its grip"
)


class FrankyArm:
    """One Franka with its hand."""

    def __init__(self, options: Mapping[str, Any], name: str):
        self._name = name
        self._options: FrankyOptions = read_options(options, name)
        self._franky: Any = None
        self._failures: tuple[type[BaseException], ...] = ()  # of franky's calls
        self._robot: Any = None
        self._tracker: Any = None
        self._hand: FrankyHand | None = None
        self._error = ""  # why a motion ended that nobody ended

    def connect(self) -> ArmFacts:
        """Reach arm and hand, and set what the control box is to take for a collision."""
        self._franky = franky = _import_franky()
        self._failures = (franky.Exception, RuntimeError)  # of libfranka, and of the network below
        address, options = self._options.address, self._options
        self._look(address)
        enforce = options.realtime == "enforce"
        config = franky.RealtimeConfig.Enforce if enforce else franky.RealtimeConfig.Ignore
        if enforce and not Path("/sys/kernel/realtime").exists():
            raise RigFault(
                f"{self._name}: this kernel is not a real-time one, and libfranka wants one; boot"
                ' a PREEMPT_RT kernel, or say realtime = "ignore" in the options of the arm'
            )
        try:
            self._robot = franky.Robot(address, realtime_config=config)
            self._robot.set_collision_behavior(
                options.collision_torque_nm, options.collision_force_n
            )
            self._hand = FrankyHand(franky.Gripper(address), options, self._name)
            require_hand(_pose(self._robot.state.F_T_EE), self._name)
        except (*self._failures, RigFault) as error:
            self.close()
            if isinstance(error, RigFault):
                raise
            raise RigFault(why_not_connected(type(error).__name__, str(error), self._at)) from None
        self._error = ""
        return ArmFacts(
            JOINTS,
            JOINT_LIMITS_RAD[options.robot],
            MAX_OPENING_M,
            senses_force=options.senses_force,
            when_we_die=_WHEN_WE_DIE,
        )

    @property
    def _at(self) -> str:
        return f"the arm '{self._name}' at {self._options.address}"

    def _look(self, address: str) -> None:
        """Whether there is a computer at all: libfranka would wait for a minute."""
        try:
            socket.create_connection((address, DESK_PORT), timeout=LOOK_S).close()
        except ConnectionRefusedError:
            pass  # it is there
        except OSError as error:
            raise RigFault(
                f"nothing answers for {self._at} ({error.strerror or error}); it must be the"
                " address of the control box, as Desk shows it, on a network that this computer is"
                " in"
            ) from None

    def read(self) -> ArmReading:
        """The newest state of the control box."""
        robot, hand = self._connected()
        self._notice_end()
        try:
            state = robot.state
        except self._failures as error:
            raise RigFault(f"{self._at} is lost ({error})") from None
        return ArmReading(
            _pose(state.O_T_EE),
            tuple(float(v) for v in np.ravel(state.q)),
            hand.opening_m(),
            float(state.time.to_sec()),
            force_on_arm_n(state.O_F_ext_hat_K),
            error_words(state.robot_mode.name, _names(state.current_errors)) or self._error,
        )

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip; the first one starts the controller."""
        self._connected()
        self._notice_end()
        if self._error:
            return
        if self._tracker is None:
            self._track()
        if self._tracker is not None:
            self._tracker.set_target(self._affine(T_mount_tip))

    def hold(self) -> None:
        """Nothing to say: the controller keeps its goal, and the control box holds before it."""
        self._connected()
        self._notice_end()

    def grip(self, opening_m: float) -> None:
        """Move the fingers, in a thread of their own."""
        self._connected()[1].grip(opening_m)

    def stop(self) -> None:
        """The measured pose becomes the goal."""
        robot, _ = self._connected()
        self._notice_end()
        if self._tracker is not None:
            self._tracker.set_target(robot.state.O_T_EE)

    def recover(self) -> None:
        """Clear a reflex; the controller starts again with the next goal."""
        robot, _ = self._connected()
        self._tracker = None
        with contextlib.suppress(*self._failures):
            robot.join_motion(BOX_S)
        try:
            done = robot.recover_from_errors()
        except self._failures as error:
            raise RigFault(f"{self._at} does not recover: {error}") from None
        if not done:
            raise RigFault(f"{self._at} stays in its error; a person must clear it in Desk")
        self._error = ""

    def close(self) -> None:
        """Come to rest under franky's own stop; then the control box holds."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            with contextlib.suppress(*self._failures):  # it has ended already
                tracker.stop()
        if self._hand is not None:
            self._hand.close()
        self._robot = self._hand = None

    def _track(self) -> None:
        """Start the controller at the measured pose."""
        franky, options = self._franky, self._options
        try:
            self._tracker = franky.CartesianImpedanceTracker(
                self._robot,
                translational_stiffness=options.translational_stiffness,
                rotational_stiffness=options.rotational_stiffness,
                translational_error_clip=np.full(3, ERROR_CLIP_M),
                rotational_error_clip=np.full(3, ERROR_CLIP_RAD),
                # or the elbow wanders off, as nothing else holds it
                posture_task=franky.PostureTask(np.ravel(self._robot.state.q), POSTURE_NM_RAD),
            )
        except self._failures as error:
            self._error = error_words("Reflex", [str(error)])
            return
        if options.force_reaction_n is not None:
            force = franky.Measure.FORCE_X**2 + franky.Measure.FORCE_Y**2
            force = force + franky.Measure.FORCE_Z**2
            too_much = force > options.force_reaction_n**2
            reaction = franky.Reaction(too_much, franky.TorqueStopMotion())
            self._tracker.motion.add_reaction(reaction)

    def _notice_end(self) -> None:
        """A controller that ended: a reflex of the control box, or our reaction to a force."""
        if self._tracker is None or self._robot.is_in_control:
            return
        limit_n = self._options.force_reaction_n
        try:
            self._robot.join_motion(0.0)  # it has ended: this only says how
            by_force = (
                f"an external force above {limit_n:g} N" if limit_n else "its controller ended"
            )
            self._error = error_words("Reflex", [by_force])
        except self._failures as error:
            self._error = error_words("Reflex", [str(error)])
        self._tracker = None

    def _affine(self, pose: Pose) -> Any:
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = pose.rotation, pose.position_m
        return self._franky.Affine(matrix)

    def _connected(self) -> tuple[Any, FrankyHand]:
        if self._robot is None or self._hand is None:
            raise RigFault(f"{self._at} is not connected")
        return self._robot, self._hand


def _import_franky() -> Any:
    try:
        import franky
    except ImportError as error:
        raise CapexError(
            f"the driver 'franky' needs franky-control ({error}): pip install \"capex[franka]\", or"
            ' python = "..." in the rig file names the interpreter of an environment that has it'
        ) from None
    return franky


def _pose(affine: Any) -> Pose:
    matrix = np.asarray(affine.matrix, dtype=np.float64)
    return Pose(matrix[:3, 3].copy(), matrix[:3, :3].copy())


def _names(errors: Any) -> list[str]:
    """The errors that are set: franky prints them as a list."""
    return [name.strip(" '\"") for name in str(errors).strip("[]").split(",") if name.strip()]
