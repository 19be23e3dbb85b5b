"""A Franka behind Deoxys: our own client of its wire, an `ArmDriver`.

Deoxys publishes fresh states only while its controller runs, so from the first `hold` on the arm is
held by OSC_POSE with absolute goals, repeated every tick; `connect` and `read` command nothing. The
tip is Deoxys' end effector: with Franka's hand at the desk, 0.1034 m from the flange and turned by
-45 degrees, that is the point between the pads, z along the approach, y along the closing. Another
one is told by the option `ee_to_tip`.

After a reflex, a user stop or a second without commands franka-interface ends, and its script
starts it anew: states stop coming for more than a second, which is the error that `read` gives.
Meanwhile nothing but NO_CONTROL is sent; a new program is asked to hold the arm where it is, and
the error stays until `recover`, so that nothing resumes by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capex.errors import RigFault
from capex.pose import Pose
from capex.worlds.kitchen import panda
from capex.worlds.rigs.deoxys import messages
from capex.worlds.rigs.deoxys.exchange import Exchange
from capex.worlds.rigs.deoxys.fingers import Fingers
from capex.worlds.rigs.deoxys.meeting import NO_TURN, require_met
from capex.worlds.rigs.deoxys.messages import GripperState, PandaState
from capex.worlds.rigs.deoxys.options import read_options
from capex.worlds.rigs.deoxys.torque_loop import TorqueLoop
from capex.worlds.rigs.drivers import ArmFacts, ArmReading
from capex.worlds.rigs.franka_tip import force_on_arm_n
from capex.worlds.rigs.room.driver import RoomClock

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
PERSON = {
    messages.USER_STOPPED: "user stop",
    messages.GUIDING: "user stop: the arm is guided by hand",
}
MODES = {messages.REFLEX: "reflex", messages.RECOVERING: "it recovers from an error"}


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
        self._fallen = ""  # an error under our control that `recover` has not seen yet
        self._fresh_s = 0.0  # when the robot's clock last went on, by ours

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
            when_we_die=WHEN_WE_DIE,
        )

    def read(self) -> ArmReading:
        """The newest state; while no controller runs it is the last that Deoxys saw."""
        self._receive()
        robot, hand = self._states()
        if wrong := robot.complaint:
            raise RigFault(f"{self._who}: a state is wrong: {wrong}")
        return ArmReading(
            robot.ee_pose @ self._ee_to_tip,
            robot.q,
            hand.width_m,
            robot.time_s,
            force_on_arm_n(robot.wrench),
            self._error() or self._fallen,
        )

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip, absolute; before the controller runs it is started instead."""
        self._drive(T_mount_tip @ (self._ee_to_tip.inverse() @ NO_TURN))

    def hold(self) -> None:
        """The last goal again, or start the controller at the measured pose."""
        self._drive(None)

    def grip(self, opening_m: float) -> None:
        """Open by a move, close by a grasp."""
        exchange, (_, hand) = self._connected(), self._states()
        if (message := self._fingers.tell(opening_m, hand)) is not None:
            exchange.send(exchange.gripper, message)

    def stop(self) -> None:
        """Hold the pose that was measured; the last goal where the measurement is old. The fingers
        keep what they have.
        """
        self._receive()
        robot, _ = self._states()
        fresh = self._connected().now_s - self._fresh_s < FRESH_S and robot.finite
        self._drive(robot.ee_pose if fresh else None)

    def recover(self) -> None:
        """Wait until a program without an error reports; the next `hold` starts its controller."""
        exchange = self._connected()
        self._receive()
        began_s, terminated = exchange.now_s, False
        while error := self._error():
            waited_s = exchange.now_s - began_s
            if error in PERSON.values() or waited_s > self._options.relaunch_s:
                raise RigFault(
                    f"{self._who} stays in the error '{error}'; a user stop that is pressed keeps"
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
        self._fallen = ""

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
        if error := self._error():
            self._fallen = error
            exchange.send(exchange.arm, self._loop.release())
            return
        exchange.send(exchange.arm, self._loop.message(robot, exchange.now_s, goal))
        if (message := self._fingers.again(hand)) is not None:
            exchange.send(exchange.gripper, message)

    def _receive(self) -> None:
        exchange = self._connected()
        exchange.receive()
        robot, before = exchange.robot, self._seen
        if robot is None or robot is before:
            return
        self._loop.watch(before, robot)
        if before is None or robot.time_s != before.time_s:
            self._fresh_s = exchange.now_s
        self._seen = robot

    def _error(self) -> str:
        """Why the arm does not move, in words."""
        exchange, (robot, _) = self._connected(), self._states()
        if robot.mode in PERSON:
            return PERSON[robot.mode]
        flags = ", ".join(flag.replace("_", " ") for flag in robot.errors)
        if robot.mode in MODES or flags:
            return ": ".join(filter(None, (MODES.get(robot.mode, "error"), flags)))
        if exchange.now_s - exchange.robot_heard_s > SILENT_S:
            return "franka-interface sends no states: it has ended, as after a reflex"
        if exchange.now_s - exchange.hand_heard_s > HAND_SILENT_S:
            return "gripper-interface sends no states"
        return ""

    def _states(self) -> tuple[PandaState, GripperState]:
        exchange = self._connected()
        if exchange.robot is None or exchange.hand is None:
            raise RigFault(f"{self._who} has sent no state")
        return exchange.robot, exchange.hand

    def _connected(self) -> Exchange:
        if self._exchange is None:
            raise RigFault(f"{self._who} is not connected")
        return self._exchange
