"""The two programs of the robot's computer as the twin plays them: franka-interface, which moves
the arm, and gripper-interface, which moves the hand. Each is looked at every 10 ms, when the arm's
control runs.

franka-interface looks for a message every 50 ms and takes the last that came. What its real one
does not survive ends it here: 20 looks in vain after the first goal, a reflex or a user stop under
its controller (libfranka throws before it passes that state on), gains that are not there, a
missing estimator, a goal that is no number. Its script starts it again a second later, and it
clears the robot's error, but a user stop: then it ends again. While it runs no controller it does
not read the robot: the state that it repeats is the last one that it saw.

gripper-interface moves the hand to the end before it looks again, and what came meanwhile is lost.
A grasp that holds is not repeated before a move. Stop makes it home the hand, Homing nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from capex.pose import Pose, rotation_matrix
from capex.rigs.drivers.deoxys import messages as wire
from capex.rigs.twins.arm import GRIP_M_S
from capex.rigs.twins.deoxys.box import HOMED_M, POLICY_S, TICK_S, DeoxysBox, PoseOrder, gains_of
from capex.rigs.twins.deoxys.states import gripper_state, robot_state
from capex.rigs.twins.physics import StateMessage

POLL_TICKS = round(POLICY_S / TICK_S)
EMPTY_POLLS = 20
ARM_RELAUNCH_TICKS = round(1.0 / TICK_S)  # auto_arm.sh sleeps for so long
GRIPPER_RELAUNCH_TICKS = round(0.1 / TICK_S)  # auto_gripper.sh
GRIPPER_HZ = 40
SHORTEST_RAMP = 0.1  # of the policy's period
STILL_M, STILL_TICKS = 2e-4, 10  # fingers that do not move for 0.1 s have met something
THERE_M = 1e-3


class ArmProgram:
    """franka-interface. `tell` passes an order on to the arm."""

    def __init__(self, tell: Callable[[PoseOrder], None]):
        self._tell = tell
        self.box: DeoxysBox
        self.sent_frame = 0  # of the state that was published last
        self.alive = False

    def launch(self) -> None:
        """A new process: no controller runs, and the robot is read once."""
        self.alive, self._frame, self._ticks, self._absent = True, 0, 0, 0
        self._controls = self._started = False
        self._reads_once = True
        self._empty = 0
        self._seen: Any = None

    def exit(self) -> None:
        """The process ends; the box holds the arm."""
        if self.alive:
            self.alive, self._absent = False, 0
            self.box.end_motion()

    def tick(self, latest: Callable[[], bytes], may_launch: bool) -> None:
        """10 ms. `latest` gives the last message that came since it was asked, b"" for none."""
        if not self.alive:
            latest()  # nobody listens
            self._absent += 1
            if self._absent >= ARM_RELAUNCH_TICKS and may_launch:
                self._relaunch()
            return
        if not may_launch or (self._controls and self.box.error):
            self.exit()
            return
        self._ticks += 1
        if self._ticks % POLL_TICKS == 0:
            self._look(latest())

    def state(self, seen: StateMessage, stale: bool) -> bytes:
        """What it publishes, b"" for nothing: the robot's state, or the last that it saw."""
        if self._controls and self.box.error and not self._reads_once:
            self.exit()
        if not self.alive:
            return b""
        if (self._reads_once or (self._controls and not stale)) or self._seen is None:
            self._seen = robot_state(seen, self.box, self._controls)
            self._reads_once = False
        self._seen.frame = self.sent_frame = self._frame
        self._frame += 1
        return bytes(self._seen.SerializeToString())

    def _relaunch(self) -> None:
        self._absent = 0
        if self.box.recover(0.0):
            self.launch()

    def _look(self, data: bytes) -> None:
        message = wire.parsed(wire.ArmMessage, data) if data else None
        if message is None:
            self._empty += 1 if data or self._started else 0
            if not data and self._empty >= EMPTY_POLLS:
                self.exit()
            return
        self._empty = 0
        if message.termination:
            self.exit()
        elif message.controller_type == wire.NO_CONTROL:
            if self._controls:
                self.box.end_motion()
            self._controls = False
        elif self._controls or message.controller_type == wire.OSC_POSE:
            self._obey(message)

    def _obey(self, message: Any) -> None:
        """A goal, or the process' end: what the real one would read from where nothing is."""
        control = wire.taken(message.control_msg)
        kind = message.traj_interpolator_type, message.state_estimator_msg.estimator_type
        if not isinstance(control, wire.PoseMessage) or not _has_gains(control):
            if not self._controls or isinstance(control, wire.PoseMessage):
                self.exit()
            return  # of another controller, while one runs: it keeps its goal
        if not self._controls and kind != (wire.LINEAR_POSE, wire.SMOOTHING):
            self.exit()  # the twin knows no other interpolation
            return
        goal = _goal(control.goal, self.box.pose)
        if not (np.isfinite(goal.position_m).all() and np.isfinite(goal.rotation).all()):
            self.exit()
            return
        if not self._controls:
            self._controls = self._started = self._reads_once = True
        ramp = max(SHORTEST_RAMP, message.traj_interpolator_time_fraction) * POLICY_S
        gains = gains_of(
            np.array(control.translational_stiffness),
            np.array(control.rotational_stiffness),
            np.array(control.config.residual_mass_vec),
        )
        if not self.box.error:
            self._tell(PoseOrder(goal, gains, ramp))


def _has_gains(control: Any) -> bool:
    lengths = (
        len(control.translational_stiffness),
        len(control.rotational_stiffness),
        len(control.config.residual_mass_vec),
    )
    return lengths == (3, 3, 7)


def _goal(goal: Any, at: Pose) -> Pose:
    """A delta is from the measured pose."""
    position_m = np.array([goal.x, goal.y, goal.z])
    rotation = rotation_matrix(np.array([goal.ax, goal.ay, goal.az]))
    if goal.is_delta:
        return Pose(at.position_m + position_m, rotation @ at.rotation)
    return Pose(position_m, rotation)


class GripperProgram:
    """gripper-interface."""

    def __init__(self) -> None:
        self.box: DeoxysBox
        self.alive = False

    def launch(self, homing: bool = True) -> None:
        """A new process; it homes the hand first, which lets go of what it holds."""
        self.alive, self._ticks, self._absent = True, 0, 0
        self._command: Any = None  # the last that came
        self._executing = self._busy = self._grasps = False
        self.grasped = False
        if homing:
            self._home()

    def exit(self) -> None:
        """The process ends; the hand finishes what it does."""
        self.alive, self._absent = False, 0

    def tick(self, came: list[bytes], may_launch: bool) -> None:
        """10 ms, with every message that came since the last."""
        if not self.alive:
            self._absent += 1
            if self._absent >= GRIPPER_RELAUNCH_TICKS and may_launch:
                self.launch()
            return
        if not may_launch:
            self.exit()
            return
        self._ticks += 1
        for data in came:
            self._hear(data)
        if self._busy and self._done():
            self._busy = self._executing = False  # also what came meanwhile is forgotten
            if self._grasps:
                self.grasped = self._within()
        elif self._executing and not self._busy:
            self._act()

    @property
    def due(self) -> bool:
        """Whether a state is due in this tick."""
        per_s = round(1.0 / TICK_S)
        now, before = (n * GRIPPER_HZ // per_s for n in (self._ticks, self._ticks - 1))
        return self.alive and now > before

    def state(self, now_s: float) -> bytes:
        """What it publishes."""
        return gripper_state(self.box.width_m, self.grasped, now_s)

    def _hear(self, data: bytes) -> None:
        message = wire.parsed(wire.GripperMessage, data)
        if message is None:
            return
        if message.termination:
            self.exit()
            return
        self._command = wire.taken(message.control_msg)
        if isinstance(self._command, wire.StopMessage):
            self.box.fingers_stop()
            self._busy = False
        self._executing = True

    def _act(self) -> None:
        command = self._command
        if isinstance(command, wire.StopMessage):
            self._home()
        elif isinstance(command, wire.MoveMessage) and command.width > HOMED_M:
            self.exit()  # libfranka's CommandException, which nothing there catches
        elif isinstance(command, wire.MoveMessage):
            self._begin(command.width, command.speed, grasps=False)
        elif isinstance(command, wire.GraspMessage):
            if not self.grasped:
                inner, outer = command.epsilon_inner, command.epsilon_outer
                self._epsilon = (inner, outer) if (inner or outer) else (0.08, 0.08)
                self._begin(command.width, command.speed, grasps=True)
        else:
            self._executing = False

    def _home(self) -> None:
        self._begin(HOMED_M, GRIP_M_S, grasps=False)

    def _begin(self, width_m: float, speed_m_s: float, *, grasps: bool) -> None:
        self._busy, self._grasps, self.grasped = True, grasps, False
        self._wanted_m, self._still = width_m, 0
        self._was_m = self.box.width_m
        self.box.fingers_to(width_m, speed_m_s)

    def _done(self) -> bool:
        width_m = self.box.width_m
        self._still = self._still + 1 if abs(width_m - self._was_m) < STILL_M else 0
        self._was_m = width_m
        there = abs(width_m - self._wanted_m) < THERE_M and not self._grasps
        return there or self._still >= STILL_TICKS

    def _within(self) -> bool:
        inner, outer = self._epsilon
        return self._wanted_m - inner < self.box.width_m < self._wanted_m + outer
