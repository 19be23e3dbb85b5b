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

from capex.errors import CapexError, ErrorCode, RigFault
from capex.pose import Pose, nearest_rotation
from capex.rigs.drivers import ROTATION_OFF, ArmFacts, ArmReading, ArmStatus, rotation_off
from capex.rigs.drivers.franka_tip import (
    CONTACT_N,
    JOINT_LIMITS_RAD,
    JOINTS,
    force_on_arm_n,
    require_hand,
)
from capex.rigs.drivers.franky_hand import FrankyHand
from capex.rigs.drivers.franky_options import FrankyOptions, read_options
from capex.rigs.drivers.franky_status import (
    STATUS_OF_MODE,
    errors_set,
    first_line,
    why_not_connected,
)

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
        self._motion: Any = None  # franky's tracking motion, while it runs
        self._hand: FrankyHand | None = None
        self._stop: tuple[ArmStatus, str] | None = None  # why a motion ended that we did not end
        self._errors_before: tuple[str, ...] = ()  # of the motion before the one that runs
        self._tip: Pose | None = None  # the last that was measured and is a pose

    def connect(self) -> ArmFacts:
        """Reach arm and hand; nothing is set in the control box before the first motion."""
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
            self._hand = FrankyHand(franky.Gripper(address), options, self._name)
            require_hand(_pose(self._robot.state.F_T_EE), self._name)
        except (*self._failures, RigFault) as error:
            self.close()
            if isinstance(error, RigFault):
                raise
            raise RigFault(why_not_connected(type(error).__name__, str(error), self._at)) from None
        self._stop, self._tip = None, None
        return ArmFacts(
            JOINTS,
            JOINT_LIMITS_RAD[options.robot],
            self._hand.max_opening_m,
            senses_force=options.senses_force,
            on_disconnect=_WHEN_WE_DIE,
            contact_n=CONTACT_N,
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
        status, detail = self._condition(state)
        self._tip = self._pose_now(state) or self._tip
        return ArmReading(
            _pose(state.O_T_EE),
            tuple(float(v) for v in np.ravel(state.q)),
            hand.opening_m(),
            float(state.time.to_sec()),
            force_on_arm_n(state.O_F_ext_hat_K),
            status,
            detail,
            hand.refused,
        )

    def _pose_now(self, state: Any) -> Pose | None:
        """The tip as a pose to aim at; None where what is measured is none."""
        raw = _pose(state.O_T_EE)
        if not np.isfinite(raw.position_m).all() or rotation_off(raw.rotation) > ROTATION_OFF:
            return None
        return Pose(raw.position_m, nearest_rotation(raw.rotation))

    def _condition(self, state: Any) -> tuple[ArmStatus, str]:
        """Whether the arm may move: by the robot's mode, and by how its last motion ended."""
        if self._stop is not None and self._stop[0].needs_person:
            return self._stop
        if (mode := state.robot_mode.name) in STATUS_OF_MODE:
            status, words = STATUS_OF_MODE[mode]
            return status, words or ", ".join(errors_set(state.current_errors))
        return self._stop or (ArmStatus.READY, "")

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip; the first one starts the controller."""
        self._connected()
        self._notice_end()
        if self._stop is None and self._motion is None:
            self._track()
        if self._motion is not None:
            self._aim(self._motion, T_mount_tip)

    def hold(self) -> None:
        """Nothing to say: the controller keeps its goal, and the control box holds before it."""
        self._connected()
        self._notice_end()

    def grip(self, opening_m: float) -> None:
        """Move the fingers, in a thread of their own."""
        self._connected()[1].grip(opening_m)

    def stop(self) -> None:
        """The measured pose becomes the goal, or the last that was one."""
        robot, _ = self._connected()
        self._notice_end()
        tip = self._pose_now(robot.state) or self._tip
        if self._motion is not None and tip is not None:
            self._aim(self._motion, tip)

    def recover(self, *, confirmed: bool) -> None:
        """Clear a reflex; the controller starts again with the next goal. One that only refused a
        goal still runs.
        """
        robot, _ = self._connected()
        self._notice_end()
        if self._stop is not None and self._stop[0].needs_person and not confirmed:
            return  # it was stopped just now
        if self._motion is not None:
            self._stop = None
            return
        with contextlib.suppress(*self._failures):
            robot.join_motion(BOX_S)
        try:
            done = robot.recover_from_errors()
        except self._failures as error:
            raise RigFault(f"{self._at} does not recover: {error}") from None
        if not done:
            raise RigFault(f"{self._at} stays in its error; a person must clear it in Desk")
        self._stop = None

    def close(self) -> None:
        """Come to rest under franky's own stop; then the control box holds."""
        motion, self._motion = self._motion, None
        if motion is not None:
            with contextlib.suppress(*self._failures):  # it has ended already
                self._robot.move(self._franky.TorqueStopMotion(), asynchronous=True)
                self._robot.join_motion()
        if self._hand is not None:
            self._hand.close()
        self._robot = self._hand = None

    def _track(self) -> None:
        """Start the controller at the measured pose. franky's own CartesianImpedanceTracker begins
        at the pose as it is reported, which it then refuses: a Panda's is no rotation to 1e-6.
        """
        franky, options, state = self._franky, self._options, self._robot.state
        if (tip := self._pose_now(state)) is None:
            self._stop = ArmStatus.FAULT, "it measures no pose to begin a motion at"
            return
        self._errors_before = errors_set(state.last_motion_errors)
        torque_nm, force_n = options.collision_torque_nm, options.collision_force_n
        try:
            self._robot.set_collision_behavior(torque_nm, force_n)
            motion = self._new_motion(franky, options, state)
            self._set_reference(motion, tip)
            self._robot.move(motion, asynchronous=True)
        except ValueError as error:
            self._stop = ArmStatus.FAULT, f"franky refuses to begin a motion: {error}"
        except self._failures as error:
            self._stop = self._explained(error)
        else:
            self._motion = motion

    def _new_motion(self, franky: Any, options: FrankyOptions, state: Any) -> Any:
        lower, upper = np.array(JOINT_LIMITS_RAD[options.robot]).T
        motion = franky.CartesianImpedanceTrackingMotion(
            translational_stiffness=options.translational_stiffness,
            rotational_stiffness=options.rotational_stiffness,
            translational_error_clip=np.full(3, ERROR_CLIP_M),
            rotational_error_clip=np.full(3, ERROR_CLIP_RAD),
            lower_joint_limits=lower,
            upper_joint_limits=upper,
            # or the elbow wanders off, as nothing else holds it
            posture_task=franky.PostureTask(np.ravel(state.q), POSTURE_NM_RAD),
        )
        if options.force_reaction_n is not None:
            force = franky.Measure.FORCE_X**2 + franky.Measure.FORCE_Y**2
            force = force + franky.Measure.FORCE_Z**2
            too_much = force > options.force_reaction_n**2
            motion.add_reaction(franky.Reaction(too_much, franky.TorqueStopMotion()))
        return motion

    def _aim(self, motion: Any, goal: Pose) -> None:
        """A new goal of the motion that runs; one that franky refuses leaves it at the last."""
        try:
            self._set_reference(motion, goal)
        except ValueError as error:
            self._stop = self._stop or (ArmStatus.FAULT, f"franky refuses a goal: {error}")

    def _set_reference(self, motion: Any, goal: Pose) -> None:
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = goal.rotation, goal.position_m
        motion.set_reference(self._franky.CartesianReference(target=self._franky.Affine(matrix)))

    def _notice_end(self) -> None:
        """A controller that ended: a reflex, a person's stop, or our reaction to a force."""
        if self._motion is None or self._robot.is_in_control:
            return
        self._motion, limit_n = None, self._options.force_reaction_n
        try:
            self._robot.join_motion(0.0)  # it has ended: this only says how
        except self._failures as error:
            self._stop = self._explained(error)
            return
        if limit_n is None:
            self._stop = ArmStatus.UNEXPLAINED, "its controller ended"
        else:
            self._stop = ArmStatus.REFLEX, f"an external force above {limit_n:g} N"

    def _explained(self, error: BaseException) -> tuple[ArmStatus, str]:
        """What ended a motion: a reflex only where the robot's state says so. A stop that a person
        has released meanwhile leaves no error there.
        """
        state = self._robot.state
        if (mode := state.robot_mode.name) in STATUS_OF_MODE:
            status, words = STATUS_OF_MODE[mode]
            return status, words or first_line(error)
        reported = errors_set(state.last_motion_errors)
        if reported and reported != self._errors_before:
            return ArmStatus.REFLEX, ", ".join(reported)
        return ArmStatus.UNEXPLAINED, first_line(error)

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
            ' python = "..." in the rig file names the interpreter of an environment that has it',
            code=ErrorCode.MISSING_PACKAGE,
        ) from None
    return franky


def _pose(affine: Any) -> Pose:
    matrix = np.asarray(affine.matrix, dtype=np.float64)
    return Pose(matrix[:3, 3].copy(), matrix[:3, :3].copy())
