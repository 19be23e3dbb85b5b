"""A rig as an Env: the arms behind the rig's own process, its cameras, and a person who arranges
and judges.

Native action, per arm: tip dx dy dz (m) | axis-angle (rad), base frame | gripper -1 open, +1 close.
All zeros hold the last goal. Nothing is touched before the first reset.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capex.errors import BadCommand, CapexError, ErrorCode, RigFault, Unsupported
from capex.pose import Array, quaternion_xyzw
from capex.rigs import registry
from capex.rigs.cameras.observed import RigEyes
from capex.rigs.cameras.recording import record
from capex.rigs.link import PersonStop, RigReading
from capex.rigs.opening import open_rig
from capex.rigs.registry import Opener, OpenRig
from capex.rigs.rigfile import ArmEntry, Box, Corner, RigFile
from capex.rigs.timing import Lateness, RigTally
from capex.worlds import (
    ArmCommand,
    ArmSpec,
    CameraModel,
    CameraSpec,
    Command,
    DepthImage,
    Env,
    FrameRecording,
    Image,
    RobotState,
    Spec,
    Start,
    State,
)
from capex.worlds.limits import validate_command

if TYPE_CHECKING:
    from capex.rigs.twins.hand import RoomHand

ACTION_NAMES = ("dx", "dy", "dz", "rx", "ry", "rz", "gripper")
TIP_NAMES = ("x", "y", "z", "qx", "qy", "qz", "qw")


class RigFileEnv(Env):
    """One task on one rig. Environments of one rig file in one process share its robot."""

    def __init__(self, world: str, rig: RigFile, task: str, opener: Opener = open_rig):
        self._rig, self._task, self._opener = rig, rig.tasks[task], opener
        self._spec = _spec(world, rig, task)
        self._borrowed = False
        self._start: Start | None = None
        self._reading: RigReading | None = None
        self._moved = False  # since the arms were last seen to keep still
        self._eyes = RigEyes(rig)
        self._tally = RigTally()
        self._largest_n: dict[str, float] = {}
        self._reset_at = 0.0  # unix time
        self._hand: RoomHand | None = None

    @property
    def spec(self) -> Spec:
        """What the rig file claims."""
        return self._spec

    @property
    def rig(self) -> RigFile:
        """The rig file."""
        return self._rig

    @property
    def instruction(self) -> str:
        """The task in words."""
        return self._task.instruction

    @property
    def scene(self) -> str:
        """The rig by name: all its arrangements share the room."""
        return self._rig.name

    def open(self) -> OpenRig:
        """The rig's arms, cameras and clock; connected by the first call."""
        if not self._borrowed:
            registry.borrow(self._rig, self._opener)
            self._borrowed = True
        return registry.current(self._rig)

    def reset(self, start: Start) -> None:
        """Move the arms home, grippers open. A person arranges the scene afterwards."""
        spec = self._spec
        if start.task != spec.task:
            raise CapexError(
                f"the start is of task '{start.task}'; this environment is {spec.name}",
                code=ErrorCode.MISMATCH,
            )
        if not 0 <= start.index < spec.starts:
            last = spec.starts - 1
            raise CapexError(
                f"there is no start {start.index} of {spec.name}; valid: 0 to {last}",
                code=ErrorCode.UNKNOWN_START,
            )
        if start.state is not None:
            raise Unsupported(f"{spec.name} saves no state, so no start can have one")
        self._reset_at = time.time()
        link = self.open().link
        self.lift()
        link.home()
        self._settled(link.settle())
        self._start, self._tally = start, RigTally()

    def recover(self) -> None:
        """A person says that the rig is fine again: what was lost is opened anew, what stopped the
        arms is cleared; RigFault where it still stands.
        """
        self._reading, self._moved = None, True
        rig = self.open()
        if rig.link.lost:
            registry.reopen(self._rig, self._opener)
            self._hand = None
            return
        rig.link.clear()
        for camera in rig.cameras.values():
            camera.start()

    def rig_process(self) -> tuple[str, int]:
        """The rig's name and the process that owns its arms, which a person's stop reaches."""
        return self._rig.name, self.open().link.process

    def person_stops(self) -> list[dict[str, Any]]:
        """Who stopped the arms since the last reset, after how many steps."""
        stops: Sequence[PersonStop] = ()
        if self._borrowed and not self.open().link.lost:
            with contextlib.suppress(RigFault):  # lost just now
                stops = self.open().link.stops()
        step = len(self._tally.late_s)  # none followed the stop
        return [{"by": s.by, "step": step} for s in stops if s.unix_time >= self._reset_at]

    def stop(self) -> None:
        """Stop the arms now, from any thread; `recover` lets them go on."""
        if self._borrowed:
            self.open().link.stop()

    def room_hand(self) -> RoomHand:
        """The hand in a simulated room: for its scripted operator and for tests, never for a
        method.
        """
        from capex.rigs.twins.hand import RoomHand

        if self._hand is None:
            self._hand = RoomHand.of(self.open().rig, self._rearranged)
        return self._hand

    def lift(self) -> None:
        """In a simulated room: lift the arms that float (YAM arms before their first goal), as a
        person does who stands beside a real one.
        """
        if self._rig.room and any(facts.floats for facts in self.open().link.facts.values()):
            self.room_hand().lift()

    def _rearranged(self) -> None:
        """Whoever arranged the simulated room has set the arm to its home and says that it may go
        on: what the rig's process remembers of earlier motions counts no more, so that the same
        start gives the same bytes whatever came before.
        """
        link = self.open().link
        link.clear()
        self._settled(link.settle())

    def _settled(self, reading: RigReading) -> None:
        self._reading, self._moved = reading, False
        self._eyes.look_after(reading)

    def robot_state(self) -> RobotState:
        """Proprioception as the last tick left it; before the first one it is measured anew, for a
        person may have moved the arm while arranging.
        """
        if self._reading is None or not self._tally.late_s:
            self._reading = self.open().link.read()
        reading = self._reading
        arms = {arm.name: reading.arms[arm.name] for arm in self._rig.arms}
        proprio = np.concatenate([_proprio(arm, reading) for arm in self._rig.arms])
        return RobotState(arms, proprio=proprio, guard=reading.guard, stopped=reading.stopped)

    def step(self, command: Command) -> Array:
        """One tick of a command, guarded; returns it as the native action."""
        validate_command(self._spec, command)
        self._tick(command)
        return np.concatenate([_action(command.arms[arm.name]) for arm in self._rig.arms])

    def apply(self, action: Array) -> None:
        """One native action for one tick. Sizes are the guard's to cut: a student's number that is
        a little too large ends no attempt.
        """
        names = self._spec.action_names
        values = np.asarray(action, dtype=np.float64)
        if values.shape != (len(names),):
            raise BadCommand(f"action has shape {values.shape}; it must have shape ({len(names)},)")
        for name, value in zip(names, values, strict=True):
            if not np.isfinite(value):
                raise BadCommand(f"action {name} is {value}; every number must be finite")
        rows = values.reshape(len(self._rig.arms), len(ACTION_NAMES))
        arms = {a.name: _command(row) for a, row in zip(self._rig.arms, rows, strict=True)}
        self._tick(Command(arms))

    def _tick(self, command: Command) -> None:
        if self._start is None:
            raise CapexError(
                f"{self._spec.name} has no start yet; call reset(Start('{self._spec.task}', 0))"
                " first",
                code=ErrorCode.WRONG_ORDER,
            )
        link = self.open().link
        if not self._tally.late_s:
            link.tare()
        self._moved = True  # also when the tick fails half-way
        self._reading = reading = link.tick(command)
        self._tally.add(reading)
        for name, force_n in reading.force_n.items():
            if force_n is not None:
                largest = max(self._largest_n.get(name, 0.0), float(np.linalg.norm(force_n)))
                self._largest_n[name] = largest

    def success(self) -> bool | None:
        """A person judges."""
        return None

    def _look(self) -> None:
        """Wait until the arms keep still; their state is then that of the pictures."""
        link = self.open().link
        if self._moved or self._reading is None:
            self._settled(link.settle())

    def observe(
        self, cameras: Sequence[str] | None = None, size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        """A fresh picture of each camera, taken after the arms have come to rest."""
        names = [c.name for c in self._spec.cameras] if cameras is None else cameras
        chosen = [self._spec.camera(name).name for name in names]
        self._look()
        return {name: self._eyes.image(self.open(), name, size) for name in chosen}

    def latest_images(
        self, cameras: Sequence[str], size: tuple[int, int] | None = None
    ) -> dict[str, Image]:
        """The newest picture of each camera while the arms move on, as a recording has it."""
        chosen = [self._spec.camera(name).name for name in cameras]
        return {name: self._eyes.newest(self.open(), name, size) for name in chosen}

    def brake(self) -> None:
        """Stop the arms where they are: whoever drives them has let go."""
        self._reading = self.open().link.brake()

    def settle(self) -> None:
        """Hold until the arms keep still: after that a stop of the guard's stands no more."""
        self._settled(self.open().link.settle())

    def camera_model(self, camera: str, size: tuple[int, int] | None = None) -> CameraModel:
        """Intrinsics of the device or the file, extrinsics of the file; Unsupported without."""
        self._spec.camera(camera)
        if self._reading is None:
            self._look()
        assert self._reading is not None
        return self._eyes.model(self.open(), camera, self._reading.arms, size)

    def depth(self, camera: str, size: tuple[int, int] | None = None) -> DepthImage:
        """The depth of the picture last observed, or of a fresh one after a motion."""
        self._spec.camera(camera)
        model = self.camera_model(camera, size)
        self._look()
        return DepthImage(self._eyes.depth(self.open(), camera, size), model)

    def save_state(self) -> State:
        """A room cannot be saved."""
        raise Unsupported(f"{self._spec.name} is a rig: its state cannot be saved")

    def load_state(self, state: State) -> None:
        """A room cannot be put back."""
        raise Unsupported(f"{self._spec.name} is a rig: no state can be loaded")

    def record_frames(self, folder: Path) -> FrameRecording:
        """Begin to record every camera into a new folder."""
        return record(self._rig, self.open().cameras, folder)

    def lateness(self) -> Lateness:
        """How late ticks began since the reset; in lock-step that time is virtual."""
        return self._tally.lateness(self._rig.control_hz)

    @property
    def largest_force_n(self) -> Mapping[str, float]:
        """By arm that senses one, the largest external force of any tick, its bias subtracted."""
        return self._largest_n

    def guard_counts(self) -> dict[str, int]:
        """In how many ticks since the reset the guard did what."""
        return dict(sorted(self._tally.guard.items()))

    def disconnect_behaviour(self) -> dict[str, str]:
        """By arm, what it does when our processes end without a word."""
        return {name: facts.on_disconnect for name, facts in self.open().link.facts.items()}

    def rig_notes(self) -> Mapping[str, Any]:
        """What a record keeps of the rig beside the attempt."""
        lateness = self.lateness()
        notes: dict[str, Any] = {
            "clock": self._rig.clock,
            "robot_s": self._tally.seconds,
            "lateness": asdict(lateness),
            "guard": self.guard_counts(),
        }
        if stops := self.person_stops():
            notes["stops"] = stops
        if slow := lateness.sentence(self._rig.control_hz):
            notes["slow"] = slow
        return notes

    def close(self) -> None:
        """Let go of the robot; the last environment of a rig closes it."""
        if self._borrowed:
            self._borrowed, self._reading, self._start = False, None, None
            if self._hand is not None:
                self._hand.close()
                self._hand = None
            registry.give_back(self._rig)


def _spec(world: str, rig: RigFile, task: str) -> Spec:
    prefixes = [f"{arm.name}_" if len(rig.arms) > 1 else "" for arm in rig.arms]
    box = rig.guard.workspace
    return Spec(
        world=world,
        task=task,
        horizon=rig.tasks[task].steps,
        exclusive=True,
        control_hz=rig.control_hz,
        arms=tuple(
            ArmSpec(
                a.name,
                a.max_opening_m,
                a.max_step_m,
                a.max_step_rad,
                a.senses_force,
                _corners(rig.guard.arm_workspaces.get(a.name)),
            )
            for a in rig.arms
        ),
        cameras=tuple(
            CameraSpec(c.name, c.kind, c.size, c.arm, c.view, c.depth and c.extrinsics is not None)
            for c in rig.cameras
        ),
        workspace_m=(box.lower_m, box.upper_m),
        action_names=tuple(f"{prefix}{name}" for prefix in prefixes for name in ACTION_NAMES),
        state_names=tuple(
            f"{prefix}{name}"
            for prefix, arm in zip(prefixes, rig.arms, strict=True)
            for name in _state_names(arm)
        ),
        starts=rig.starts,
        depth=any(c.depth and c.extrinsics is not None for c in rig.cameras),
        success="operator",
        can_save=False,
        real_time=rig.clock == "real",
        records_frames=True,
        hints=rig.tasks[task].hints,
        technique=rig.tasks[task].technique,
    )


def _corners(box: Box | None) -> tuple[Corner, Corner] | None:
    return None if box is None else (box.lower_m, box.upper_m)


def _state_names(arm: ArmEntry) -> tuple[str, ...]:
    """Of one arm: its tip, as many joints as the file promises, and the opening."""
    return (*TIP_NAMES, *(f"joint{k + 1}" for k in range(arm.joints)), "opening")


def _proprio(arm: ArmEntry, reading: RigReading) -> Array:
    state = reading.arms[arm.name]
    tip, joints_rad = state.T_base_tip, reading.joints_rad[arm.name][: arm.joints]
    return np.array([*tip.position_m, *quaternion_xyzw(tip.rotation), *joints_rad, state.opening_m])


def _action(command: ArmCommand) -> Array:
    if command.step_m is None:
        return np.array([0.0] * 6 + [command.gripper])
    return np.array([*command.step_m, *command.step_rad, command.gripper], dtype=np.float64)


def _command(row: Array) -> ArmCommand:
    dx, dy, dz, rx, ry, rz, gripper = (float(v) for v in row)
    gripper = max(-1.0, min(1.0, gripper))
    if not any((dx, dy, dz, rx, ry, rz)):
        return ArmCommand(None, gripper=gripper)
    return ArmCommand((dx, dy, dz), (rx, ry, rz), gripper)
