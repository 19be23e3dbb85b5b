"""A YAM arm behind i2rt's follower server (`minimum_gello --mode follower`), an `ArmDriver`.

The server knows joints only, so the driver keeps a joint goal of its own: each goal of the tip is
solved from the last joint goal, never from the measured joints, which hang below it. What the arm
then lacks is the servo's to add. `connect` and `read` command nothing. The server starts its arm
floating (gravity compensation without a goal), and the first goal ends that: i2rt's library could
make the arm float again (`enter_gravity_comp_idle`), but its server offers no such method, so only
a new start of the server does.

The server says no time and no error. A reading is as old as its answer, unless it repeats itself to
the bit while the joint goal moves on: then the arm's program hangs, and the reading grows old.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import RigFault
from capex.loopback import HOST
from capex.pose import Array, Pose
from capex.rigs.drivers import ArmFacts, ArmReading
from capex.rigs.drivers.yam.kinematics import JOINTS, MAX_OPENING_M, MODELS, YamKinematics
from capex.rigs.drivers.yam.wire import PortalClient
from capex.rigs.tables import TomlTable
from capex.rigs.twins.driver import RoomClock
from capex.rigs.twins.wire import RoomLine, ask, reach

PORT = 11333  # i2rt's own
WHEN_WE_DIE = (
    "i2rt's server goes on and holds the arm, under power, at the last joint goal; when that server"
    " ends or loses the arm, the motors only damp after 400 ms and the arm sinks onto what is below"
    " it, for it has no brakes (read in i2rt's code, not yet tried on a robot)"
)
BY_HAND = (
    "it floats, and a hand can lead it, until it is first held; once it is stiff only its server"
    " started anew makes it float: hold the arm, end the server (Ctrl-C), start it again"
)
DOFS = 7  # six joints, and the gripper from 0 closed to 1 open
ANSWER_S = 2.0
SLACK_RAD = 0.3  # i2rt's limits are 0.15 wider than its model's, and an arm may be pushed
MOVED_RAD = 0.35  # an arm so far from its joint goal was moved by others: go on from there
TICK_S = 0.05
AHEAD_RAD = 0.12  # what a turn of 0.039 rad a tick needs at the wrist
COAST_TICKS = (1, 2, 4, 7)  # looks on the way to where an arm comes to rest
FROZEN_RAD = 0.01  # a goal that went on by so much changes what a working arm measures
ROOMS = ("arm", "left", "right", "cameras", "side")  # ports that a simulated room adds


@dataclass(frozen=True)
class Options:
    """Which model the arm is, and where its server is."""

    model: str
    host: str
    port: int
    answer_s: float  # how long it is waited for
    side: int | None  # of a simulated room


def read_options(values: Mapping[str, Any], name: str) -> Options:
    """Check the options of an arm; a room's port for the arm is the one of its name. The model has
    no default: all of them report seven joints, and a wrong table puts the tip up to 30 cm off.
    """
    table = TomlTable(Path("rig file"), f"arms '{name}'.options", values)
    for key in ROOMS:
        table.given(key)
    options = Options(
        model=table.choice("model", tuple(MODELS)),
        host=table.text("host", HOST),
        port=table.whole("port", PORT),
        answer_s=table.number("answer_s", ANSWER_S),
        side=int(values["side"]) if "side" in values else None,
    )
    table.end()
    if options.side is None:
        return options
    return replace(options, port=int(values.get(name, options.port)))


class YamArm:
    """One arm with its gripper."""

    def __init__(self, options: Mapping[str, Any], name: str):
        self._options, self._name = read_options(options, name), name
        self._at = f"{self._options.host}:{self._options.port}"
        self._model = model = MODELS[self._options.model]
        self._kinematics = YamKinematics(model)
        # A joint stays behind a moving goal by kd / kp. It is told to be where the goal will be by
        # then.
        self._lag_ticks: Array = np.array(model.kd) / np.array(model.kp) / TICK_S
        self._client: PortalClient | None = None
        self._side: RoomLine | None = None
        self._forget()

    def _forget(self) -> None:
        """Begin anew: nothing was told, nothing is known."""
        self._goal: Array | None = None
        self._seen: Array = np.zeros(DOFS)  # what the server said last
        self._measured: Array = np.zeros(DOFS)  # the same, while it was finite
        self._open = 1.0
        self._fresh_s = 0.0  # when the numbers were last known to be right
        self._goal_then: Array | None = None  # of the joints, when they last changed
        self._starts: int | None = None

    @classmethod
    def clock(cls, options: Mapping[str, Any]) -> RoomClock:
        """The clock of a twin in lock-step, from the arm's own options."""
        return RoomClock(int(options["side"]))

    def connect(self) -> ArmFacts:
        """Meet the server; nothing is commanded."""
        self.close()
        self._forget()
        options, who = self._options, f"the arm '{self._name}'"
        self._client = PortalClient(options.host, options.port, who, options.answer_s)
        if self._options.side is not None:
            self._side = reach(self._options.side, "the room's side channel")
        self._require_yam()
        self._measure()
        if not np.isfinite(self._seen).all():
            raise RigFault(f"{who} reports numbers that are not finite: {self._seen.tolist()}")
        self._open = float(np.clip(self._measured[6], 0.0, 1.0))
        return ArmFacts(
            JOINTS,
            tuple(joint.range_rad for joint in self._model.joints),
            MAX_OPENING_M,
            senses_force=False,
            on_disconnect=WHEN_WE_DIE,
            floats=True,
            by_hand=BY_HAND,
        )

    def read(self) -> ArmReading:
        """The server's latest numbers; the tip follows from the joints."""
        time_s = self._measure()
        q = self._seen
        return ArmReading(
            self._kinematics.tip(q[:6]), tuple(q[:6].tolist()), float(q[6]) * MAX_OPENING_M, time_s
        )

    def foreseen(self, T_mount_tip: Pose) -> tuple[Pose, ...]:
        """Where `command` would lead the tip: what the joints cannot have of a goal is missing. The
        server would hold what it was told, which lies ahead of that; on the way there each joint
        has its own lag.
        """
        goal, told = self._solved(T_mount_tip)
        off = self._measured[:6] - told
        coasting = [told + np.exp(-ticks / self._lag_ticks) * off for ticks in COAST_TICKS]
        return tuple(self._kinematics.tip(q) for q in (goal, *coasting, told))

    def command(self, T_mount_tip: Pose) -> None:
        """The goal of the tip, as joints near to the last ones."""
        self._send(*self._solved(T_mount_tip))

    def _solved(self, T_mount_tip: Pose) -> tuple[Array, Array]:
        """The joints of a goal, and what they are told so that they are there in time."""
        before = self._begin()
        goal = self._kinematics.step(before, T_mount_tip)
        ahead = np.clip(self._lag_ticks * (goal - before), -AHEAD_RAD, AHEAD_RAD)
        return goal, np.clip(goal + ahead, self._model.lower_rad, self._model.upper_rad)

    def hold(self) -> None:
        """The last joint goal again, or the measured joints."""
        self._send(self._begin())

    def grip(self, opening_m: float) -> None:
        """Open or close; the joints keep their goal."""
        self._open = float(np.clip(opening_m / MAX_OPENING_M, 0.0, 1.0))
        self.hold()

    def stop(self) -> None:
        """Hold the measured joints, where they are numbers; else those before."""
        self._measure()
        self._send(self._measured[:6])

    def recover(self, *, confirmed: bool) -> None:
        """A YAM's server reports no errors that could be cleared."""

    def close(self) -> None:
        """Leave; the server holds the last goal. What brings the arm down before is the keeper's
        parking.
        """
        client, self._client = self._client, None
        side, self._side = self._side, None
        if client is not None:
            client.close()
        if side is not None:
            side.close()

    def _begin(self) -> Array:
        """The joints from which to go on: the last goal, unless somebody moved the arm."""
        q = self._measured[:6]
        if self._goal is None or _apart(self._goal, q) > MOVED_RAD:
            return q
        return self._goal

    def _send(self, goal: Array, ahead: Array | None = None) -> None:
        """Tell the joints their goal, or in a motion what lies a little ahead of it. The server
        would pass on to its motors whatever it gets.
        """
        told = np.append(goal if ahead is None else ahead, self._open)
        if not (np.isfinite(told).all() and np.isfinite(goal).all()):
            raise RigFault(f"the arm '{self._name}': joint goals that are not finite are not sent")
        self._call("command_joint_pos", told)
        self._goal = goal.copy()

    def _measure(self) -> float:
        """Ask for the joints; returns since when they are known to be right."""
        now_s = self._now()
        seen = self._joints(self._call("get_observations"))
        if self._goal_then is None or not np.array_equal(seen, self._seen):
            self._seen, self._goal_then = seen, self._goal
            if np.isfinite(seen).all():
                self._measured = seen
        elif self._goal is not None and _apart(self._goal, self._goal_then) > FROZEN_RAD:
            return self._fresh_s
        self._fresh_s = now_s
        return now_s

    def _now(self) -> float:
        """The machine's clock, or the twin's; a twin's program that began anew is noticed."""
        if self._side is None:
            return time.monotonic()
        answer, _ = ask(self._side, {"kind": "programs", "arm": self._name})
        if self._starts not in (None, int(answer["starts"])):
            self._goal = self._goal_then = None
        self._starts = int(answer["starts"])
        return float(answer["now_s"])

    def _joints(self, observations: Any) -> Array:
        """Seven numbers; servers of one process have the gripper's beside the others."""
        joints = np.array(observations["joint_pos"], dtype=np.float64)
        if "gripper_pos" in observations and joints.shape == (DOFS - 1,):
            joints = np.append(joints, np.asarray(observations["gripper_pos"], dtype=np.float64))
        if joints.shape != (DOFS,):
            raise RigFault(f"the arm '{self._name}' reports {joints.size} numbers, not {DOFS}")
        return joints

    def _require_yam(self) -> None:
        dofs = int(self._call("num_dofs"))
        if dofs != DOFS:
            raise RigFault(
                f"the arm '{self._name}': the server at {self._at} has {dofs} joints; a YAM with"
                f" its gripper has {DOFS}: start it with --gripper linear_4310"
            )
        q, model = self._joints(self._call("get_observations"))[:6], self._model
        beyond = (q < model.lower_rad - SLACK_RAD) | (q > model.upper_rad + SLACK_RAD)
        if beyond.any() or not np.isfinite(q).all():
            raise RigFault(
                f"the arm '{self._name}' reports joints that a {self._options.model} cannot have:"
                f" {np.round(q, 2).tolist()} rad; is it another arm, or one without its zero?"
            )

    def _call(self, method: str, *given: Any) -> Any:
        if self._client is None:
            raise RigFault(f"the arm '{self._name}' is not connected")
        return self._client.call(method, *given)


def _apart(one: Array, other: Array) -> float:
    """The joint that differs most, radians."""
    return float(np.abs(one - other).max())
