"""The twin's end of i2rt's wire: a follower server for each of two arms.

The methods and what they give are those of i2rt's own server (`minimum_gello --mode follower`,
commit 5d47b35): num_dofs, get_joint_pos, command_joint_pos, command_joint_state, get_observations.
Every call is answered before its client goes on, with the room's lock held, so that in lock-step
nothing has to be waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mujoco
import numpy as np

from capex.pose import Array
from capex.rigs.drivers.yam.kinematics import YAM, YamKinematics
from capex.rigs.twins.physics import Room, StateMessage
from capex.rigs.twins.wire import Header
from capex.rigs.twins.yam.follower import FollowerServer, Gone
from capex.rigs.twins.yam.pair import ARMS, DOFS, YamPair


class YamFront:
    """An `ArmFront` whose driver is `yam.driver.YamArm`, once for each arm."""

    room: Room
    questions: Mapping[str, Callable[[Header], Header]]

    def __init__(self, lock_step: bool, lock: threading.Lock):
        self._lock, self._kinematics = lock, YamKinematics(YAM)
        self._servers = {name: FollowerServer(self._methods(name)) for name in ARMS}
        self._pair: YamPair | None = None
        self._state: StateMessage | None = None
        self._told: dict[str, bytes] = {}
        self._built = False
        self.questions = {"programs": self._programs, "lift": self._lift}

    def make_arm(self, model: mujoco.MjModel, data: mujoco.MjData) -> YamPair:
        """Both arms of the room."""
        before, self._pair = self._pair, YamPair(model, data, self._trouble)
        if before is not None:  # another task's model
            for name, arm in self._pair.arms.items():
                arm.starts += before.arms[name].starts
        return self._pair

    def listen(self) -> dict[str, int]:
        """A port for each arm, by its name; "arm" is the left one's. Until somebody arranges, the
        arms lie where they lay without power.
        """
        self._built = True
        assert self._pair is not None
        with self._lock:
            self._pair.switch_on()
            self.room.refresh()
        for server in self._servers.values():
            server.start()
        ports = {name: server.port for name, server in self._servers.items()}
        return {"arm": ports[ARMS[0]], **ports}

    def send_state(self, state: StateMessage) -> None:
        """Kept until somebody asks."""
        self._state = state

    def drop(self) -> None:
        """The cables are pulled: the programs go on, and hold."""
        for name, server in self._servers.items():
            if self._trouble("dropped-connection", name):
                server.drop()

    def _methods(self, name: str) -> dict[str, Callable[..., Any]]:
        methods: dict[str, Callable[..., Any]] = {
            "num_dofs": lambda: DOFS,
            "get_joint_pos": lambda: self._joints(name),
            "get_observations": lambda: {"joint_pos": self._joints(name)},
            "command_joint_pos": lambda joints: self._command(name, joints),
            "command_joint_state": lambda state: self._command(
                name, state.get("position", state.get("pos"))
            ),
        }
        return {key: partial(self._held, name, work) for key, work in methods.items()}

    def _held(self, name: str, work: Callable[..., Any], *given: Any) -> Any:
        """A method with the room's lock; none answers while its program is gone."""
        with self._lock:
            self.room.begin_faults()
            gone = any(self._trouble(k, name) for k in ("server-gone", "dropped-connection"))
            if gone or self._pair is None or self._pair.error:
                raise Gone
            return work(*given)

    def _joints(self, name: str) -> Array:
        assert self._state is not None
        return np.array(self._state.values[ARMS.index(name)])

    def _command(self, name: str, given: Any) -> None:
        joints = np.array(given, dtype=np.float64)
        if joints.shape != (DOFS,) or not np.isfinite(joints).all():
            raise ValueError(f"a goal has {DOFS} finite numbers, not {joints.tolist()}")
        assert self._pair is not None
        if self._pair.hangs(name):
            return  # it waits in the program's queue, and newer ones replace it
        if self._told.get(name) != joints.tobytes():  # others are heartbeats
            self._told[name] = joints.tobytes()
            self.room.command(self._kinematics.tip(joints[:6]))
        self._pair.tell(name, joints)

    def _trouble(self, kind: str, name: str) -> bool:
        return self._built and self.room.faults.on(kind, arm=name)

    def _lift(self, _header: Header) -> Header:
        """A person lifts what floats."""
        assert self._pair is not None
        self._pair.lift()
        self.room.refresh()
        return {}

    def _programs(self, header: Header) -> Header:
        """How often an arm's program was started: whoever arranges starts it anew."""
        assert self._pair is not None
        return {"starts": self._pair.arms[str(header["arm"])].starts}
