"""A Franka behind Deoxys: our own client of its wire, an `ArmDriver`.

Deoxys publishes fresh states only while its controller runs, so from the first `hold` on the arm is
held by OSC_POSE with absolute goals, repeated every tick; `connect` and `read` command nothing. The
tip is Deoxys' end effector: with Franka's hand at the desk, 0.1034 m from the flange and turned by
-45 degrees, that is the point between the pads, z along the approach, y along the closing. Another
one is told by the option `ee_to_tip`.

After a reflex, a user stop or a second without commands franka-interface ends, and its script
starts it anew: states stop coming for more than a second, which is the fault that `read` gives.
Meanwhile nothing but NO_CONTROL is sent, and the fault stays until `recover`, so that the motion
under way ends. What stopped the arm is known only if the new program reports errors of the last
motion that the old one did not, and if it came as soon as it does by itself (`reflex_relaunch_s`):
then it was a reflex, and a program may go on. A user stop that was unlocked meanwhile leaves no
trace, nor does a lost network: the stop is UNEXPLAINED, and a person must say that the arm may
move. So is a controller that ended while its program ran on. A stop that a person presses after a
reflex, and releases before the new program would have come anyway, is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from capex.errors import RigFault
from capex.pose import Pose
from capex.rigs.drivers import ArmFacts, ArmReading, ArmStatus
from capex.rigs.drivers.deoxys import messages
from capex.rigs.drivers.deoxys.exchange import Exchange
from capex.rigs.drivers.deoxys.fingers import Fingers
from capex.rigs.drivers.deoxys.meeting import NO_TURN, require_met
from capex.rigs.drivers.deoxys.messages import GripperState, PandaState
from capex.rigs.drivers.deoxys.options import read_options
from capex.rigs.drivers.deoxys.torque_loop import TorqueLoop
from capex.rigs.drivers.franka_tip import CONTACT_N, force_on_arm_n
from capex.rigs.twins.driver import RoomClock
from capex.worlds.kitchen import robot as panda

WHEN_WE_DIE = (
    "after 1 s without commands franka-interface ends its torques and itself, and the robot's own"
    " controller holds the arm where it is (read in Deoxys' code, not yet tried on a robot); its"
    " script starts it anew; the gripper keeps what it was told"
)
SILENT_S = 0.5  # of 100 states a second, and shorter than the pause before a new program
HAND_SILENT_S = 1.0  # of 40 states a second
FRESH_S = 0.1  # a measured pose that is older is no place to stop at
TERMINATE_S = 2.0  # a program that lives with an error for so long is made to end
TICK_S = 0.05  # Deoxys looks for commands so often
STATUS_OF_MODE = {
    messages.OTHER: (ArmStatus.NOT_READY, "unlock the joints and activate FCI in Desk"),
    messages.USER_STOPPED: (ArmStatus.USER_STOP, ""),
    messages.GUIDING: (ArmStatus.USER_STOP, "the arm is guided by hand"),
    messages.REFLEX: (ArmStatus.REFLEX, ""),
    messages.RECOVERING: (ArmStatus.FAULT, "it recovers from an error"),
}


class Cause(Enum):
    """What is between an arm and its next motion."""

    NONE = auto()
    REPORTED = auto()  # the robot's own state says it
    SILENT = auto()  # no states come
    ANEW = auto()  # its program has started anew
    LEFT = auto()  # its controller ended, though the program runs on and we did not end it
    NO_HAND = auto()  # the hand's program sends nothing
    UNEXPLAINED = auto()  # after all that


@dataclass(frozen=True)
class Condition:
    """A cause, what it means for the arm, and words for it."""

    cause: Cause
    status: ArmStatus
    detail: str = ""

    @property
    def well(self) -> bool:
        """Whether the arm may move."""
        return self.cause is Cause.NONE


UNEXPLAINED = Condition(
    Cause.UNEXPLAINED,
    ArmStatus.UNEXPLAINED,
    "franka-interface ended and nothing shows that it was a reflex; a user stop that was pressed"
    " and released looks the same: look at the robot, then say that it may move",
)
WELL = Condition(Cause.NONE, ArmStatus.READY)
SILENT = Condition(
    Cause.SILENT,
    ArmStatus.FAULT,
    "franka-interface sends no states: it has ended, as after a reflex or a user stop",
)
ANEW = Condition(Cause.ANEW, ArmStatus.FAULT, "franka-interface has started anew")
LEFT = Condition(
    Cause.LEFT,
    ArmStatus.UNEXPLAINED,
    "the arm left its motion and nothing shows why: look at the robot, then say that it may move",
)
NO_HAND = Condition(Cause.NO_HAND, ArmStatus.FAULT, "gripper-interface sends no states")


class DeoxysArm:
    """One Panda with its hand."""

    def __init__(self, options: Mapping[str, Any], name: str):
        self._options, self._name = read_options(options, name), name
        self._who = f"the arm '{name}'"
        self._ee_to_tip = self._options.ee_to_tip or NO_TURN
        self._exchange: Exchange | None = None
        self._reset()

    def _reset(self) -> None:
        self._loop, self._fingers = TorqueLoop(self._options.gains), Fingers(self._options)
        self._seen: PandaState | None = None
        self._stop: Condition = WELL  # under our control; `recover` has not cleared it yet
        self._before: PandaState | None = None  # the last state before that stop
        self._away_s = 0.0  # how long no program sent states since then, before one started anew
        self._fresh_s = 0.0  # when the robot's clock last went on, by ours
        self._stopped = False  # since the last command: what the fingers missed is not repeated

    @classmethod
    def clock(cls, options: Mapping[str, Any]) -> RoomClock:
        """The clock of a twin in lock-step, from the arm's own options."""
        return RoomClock(int(options["side"]))

    def connect(self) -> ArmFacts:
        """Meet both programs; nothing is commanded."""
        self.close()
        self._reset()
        exchange = Exchange(self._options)
        try:
            exchange.meet()
            require_met(exchange, self._name)
        except BaseException:
            exchange.close()
            raise
        self._exchange = exchange
        self._receive()
        _, hand = self._states()
        return ArmFacts(
            panda.JOINTS,
            tuple(zip(panda.LOWER_RAD.tolist(), panda.UPPER_RAD.tolist(), strict=True)),
            hand.max_width_m,
            senses_force=True,
            on_disconnect=WHEN_WE_DIE,
            contact_n=CONTACT_N,
        )

    def read(self) -> ArmReading:
        """The newest state; while no controller runs it is the last that Deoxys saw."""
        self._receive()
        robot, hand = self._states()
        if wrong := robot.complaint:
            raise RigFault(f"{self._who}: a state is wrong: {wrong}")
        now = self._condition()
        shown = self._stop if now.well or self._stop.status.needs_person else now
        return ArmReading(
            robot.ee_pose @ self._ee_to_tip,
            robot.q,
            hand.width_m,
            robot.time_s,
            force_on_arm_n(robot.wrench),
            shown.status,
            shown.detail,
        )

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip, absolute; before the controller runs it is started instead."""
        self._stopped = False
        self._drive(T_mount_tip @ (self._ee_to_tip.inverse() @ NO_TURN))

    def hold(self) -> None:
        """The last goal again, or start the controller at the measured pose."""
        self._drive(None)

    def grip(self, opening_m: float) -> None:
        """Open by a move, close by a grasp."""
        self._stopped = False
        exchange, (_, hand) = self._connected(), self._states()
        if (message := self._fingers.tell(opening_m, hand)) is not None:
            exchange.send(exchange.gripper, message)

    def stop(self) -> None:
        """Hold the pose that was measured; the last goal where the measurement is old. The fingers
        keep what they have.
        """
        self._stopped = True
        self._receive()
        robot, _ = self._states()
        fresh = self._connected().now_s - self._fresh_s < FRESH_S and robot.finite
        self._drive(robot.ee_pose if fresh else None)

    def recover(self, *, confirmed: bool) -> None:
        """Wait until a program without an error reports; the next `hold` starts its controller,
        unless a person must look first.
        """
        exchange = self._connected()
        self._receive()
        began_s, terminated = exchange.now_s, False
        while not (now := self._condition()).well:
            waited_s = exchange.now_s - began_s
            if now.status.needs_person or waited_s > self._options.relaunch_s:
                told = ": ".join(filter(None, (str(now.status), now.detail)))
                raise RigFault(
                    f"{self._who} stays stopped ({told}); a user stop that is pressed keeps"
                    " franka-interface from starting: unlock it, or look at its terminal"
                )
            heard = exchange.now_s - exchange.robot_heard_s < SILENT_S
            if heard and waited_s > TERMINATE_S and not terminated:
                terminated = True
                exchange.send(exchange.arm, messages.terminate())
            else:
                exchange.send(exchange.arm, self._loop.release())
            exchange.pause(TICK_S)
            self._receive()
        self._stop = WELL if confirmed or self._explained() else UNEXPLAINED
        self._away_s = 0.0

    def close(self) -> None:
        """End the controller, so that the robot's own holds the arm, and leave."""
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        try:
            if exchange.arm.sent:
                exchange.part(self._loop.release(), 2 * TICK_S)
        finally:
            exchange.close()

    def _drive(self, goal: Pose | None) -> None:
        self._receive()
        exchange, (robot, hand) = self._connected(), self._states()
        if not self._stop.well:
            exchange.send(exchange.arm, self._loop.release())
            return
        exchange.send(exchange.arm, self._loop.message(robot, exchange.now_s, goal))
        if not self._stopped and (message := self._fingers.again(hand)) is not None:
            exchange.send(exchange.gripper, message)

    def _receive(self) -> None:
        """Take the newest states, and note a stop that they show."""
        exchange = self._connected()
        exchange.receive()
        if exchange.robot is not None and exchange.robot is not self._seen:
            self._see(exchange.robot, self._seen, exchange.robot_silent_s)
            exchange.robot_silent_s = 0.0
        if exchange.robot is not None and exchange.hand is not None:
            now = self._condition()
            if not now.well:
                self._note_stop(now)

    def _see(self, robot: PandaState, before: PandaState | None, silent_s: float) -> None:
        if self._loop.watch(before, robot):
            self._note_stop(LEFT)
        if before is not None and robot.frame < before.frame:
            self._away_s += silent_s
            self._note_stop(ANEW)
        if before is None or robot.time_s != before.time_s:
            self._fresh_s = self._connected().now_s
        self._seen = robot

    def _note_stop(self, stop: Condition) -> None:
        """Keep what stopped the arm first; a failing hand counts less, what needs a person more."""
        if self._stop.cause in (Cause.NONE, Cause.NO_HAND):
            self._before = self._seen
        elif self._stop.status.needs_person or not stop.status.needs_person:
            return
        self._stop = stop

    def _explained(self) -> bool:
        """Whether the stop is known to be none of a person's: a state said so, or the errors of the
        last motion that a new program reports are not those that the old one did. Of a program that
        was away for longer than it takes to start nothing is known.
        """
        if self._stop.status.needs_person or self._away_s > self._options.reflex_relaunch_s:
            return False
        if self._stop.cause not in (Cause.SILENT, Cause.ANEW):
            return True
        after, before = self._states()[0].last_errors, self._before
        return bool(after) and before is not None and after != before.last_errors

    def _condition(self) -> Condition:
        """Whether the arm may move now, by the newest states alone."""
        exchange, (robot, _) = self._connected(), self._states()
        if robot.mode in STATUS_OF_MODE or robot.errors:
            status, words = STATUS_OF_MODE.get(robot.mode, (ArmStatus.FAULT, ""))
            return Condition(Cause.REPORTED, status, words or ", ".join(robot.errors))
        if exchange.now_s - exchange.robot_heard_s > SILENT_S:
            return SILENT
        if exchange.now_s - exchange.hand_heard_s > HAND_SILENT_S:
            return NO_HAND
        return WELL

    def _states(self) -> tuple[PandaState, GripperState]:
        exchange = self._connected()
        if exchange.robot is None or exchange.hand is None:
            raise RigFault(f"{self._who} has sent no state")
        return exchange.robot, exchange.hand

    def _connected(self) -> Exchange:
        if self._exchange is None:
            raise RigFault(f"{self._who} is not connected")
        return self._exchange
