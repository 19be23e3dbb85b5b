"""A rig file: its drivers, where they stand, what the guard allows, its tasks. TOML, no code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from capex.pose import Array, Pose
from capex.rigs.hands import DEFAULT_HAND, Hand

Corner = tuple[float, float, float]


@dataclass(frozen=True)
class Box:
    """An axis-aligned box in the base frame, metres."""

    name: str
    lower_m: Corner
    upper_m: Corner


@dataclass(frozen=True)
class GuardPolicy:
    """What may leave the rig's process, whatever a model or a policy says. Read from the rig file
    or from a file of its own; on by default, and no flag turns it off.
    """

    workspace: Box  # of the tips
    keep_out: tuple[Box, ...] = ()  # of the hands
    floor_m: float | None = None  # hands stay above it; None: see `floor`
    max_tilt_deg: float = 100.0  # of the approach from straight down; "forward" is 90
    max_step_m: float = 0.02  # a tick, per arm
    max_step_rad: float = 0.1
    max_move_m: float = 0.12  # from the pose at which a motion began, unless it settles between
    lead_m: float = 0.03  # how far a goal may stand ahead of the measured pose
    lead_rad: float = 0.3
    joint_margin_rad: float = 0.05
    arm_distance_m: float = 0.06  # between the tips' hulls of two arms
    force_latch_n: float | None = 30.0  # None: forces are not known or not looked at
    stale_s: float = 0.2  # an older state stops the motion
    alone_hold_s: float = 30.0  # how long the arms are held after the collector died, then closed
    arm_workspaces: Mapping[str, Box] = field(default_factory=dict)  # of arms that have their own
    hands: Mapping[str, Hand] = field(default_factory=dict)

    def box(self, arm: str) -> Box:
        """Where the tip of an arm may be."""
        return self.arm_workspaces.get(arm, self.workspace)

    def hand(self, arm: str) -> Hand:
        """The parts of an arm's hand."""
        return self.hands.get(arm, DEFAULT_HAND)

    def floor(self, arm: str) -> float:
        """What no part of a hand may come below. Where the file names no floor, as low as the
        fingers reach when the hand points straight down at the lower end of the tip's box.
        """
        if self.floor_m is not None:
            return self.floor_m
        beyond_tip_m = max(part.upper_m[2] for part in self.hand(arm))
        return self.box(arm).lower_m[2] - beyond_tip_m


@dataclass(frozen=True)
class ArmEntry:
    """One arm of a rig."""

    name: str
    driver: str  # a name of `drivers.DRIVERS`, or module:callable of the user's own
    options: Mapping[str, Any]  # given to the driver: an address, gains
    T_base_mount: Pose
    home: Pose  # of the tip, base frame
    park: Pose | None = None  # where it is left at the end: an arm without brakes, low
    max_step_m: float = 0.01  # what one command of ours may carry
    max_step_rad: float = 0.05
    contact_n: float | None = None  # an external force above it is contact; None: the driver's
    held_gap_m: float = 0.004  # fingers told to close that stay this far open hold something
    lock: str = ""  # what two processes may not share: an address, a serial; default: the options
    # What the spec says before the arm is connected; the arm itself must then agree.
    max_opening_m: float = 0.08
    senses_force: bool = True
    joints: int = 0  # so many angles are part of the state; 0: the tip and the opening alone


@dataclass(frozen=True)
class CameraEntry:
    """One camera of a rig."""

    name: str
    driver: str
    options: Mapping[str, Any]
    kind: Literal["exterior", "wrist"]
    size: tuple[int, int]
    arm: str = ""
    view: str = ""  # where it stands and how its image lies, in words for the prompt
    depth: bool = False
    intrinsics: Array | None = None  # where the device does not know them
    # Of an exterior camera in the base frame, of a wrist camera in that of its tip; None: not
    # calibrated.
    extrinsics: Pose | None = None
    lock: str = ""


@dataclass(frozen=True)
class RigTask:
    """A task: words only."""

    name: str
    instruction: str
    success: str  # what counts, in words for whoever judges; the rules are among them
    steps: int  # control steps; a time limit in the file becomes steps at the rig's rate
    hints: str = ""  # facts, for every method
    technique: str = ""  # how this robot does it: not for the base method
    rules: tuple[str, ...] = ()  # what may not happen on the way, each by itself


@dataclass(frozen=True)
class RigFile:
    """A whole rig file, checked."""

    path: Path
    name: str
    arms: tuple[ArmEntry, ...]
    cameras: tuple[CameraEntry, ...]
    guard: GuardPolicy
    tasks: Mapping[str, RigTask]
    clock: Literal["real", "lock-step"] = "real"
    control_hz: float = 20.0
    starts: int = 1000
    # Who arranges and judges: a person, or the scripted stand-in that only a simulated room has.
    operator: Literal["person", "scripted"] = "person"
    frames: Literal["video", "images"] = "video"  # how recorded frames are kept
    # Who runs the process that owns the arms: a driver may need packages that this environment
    # cannot have. Empty: the interpreter that runs us.
    python: str = ""
    settle_s: float = 0.15  # a pose that keeps still for so long has settled
    settle_at_most_s: float = 3.0
    room: Mapping[str, Any] = field(default_factory=dict)  # of a simulated room: its own table
    beside: tuple[Path, ...] = ()  # the files of tasks and guard that it names
    hands_assumed: tuple[str, ...] = ()  # arms whose hand neither the file nor the driver names
