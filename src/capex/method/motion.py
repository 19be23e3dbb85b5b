"""Motions and grippers: progress, the end of a motion, the last commands, texts of reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from capex.plan import Gripper, WaypointStatus
from capex.pose import Array, angle_between
from capex.worlds import ArmSpec, Contact, RobotState

REACHED_M, REACHED_RAD = 0.008, 0.08
STALL_WINDOW, STALL_M, STALL_RAD = 40, 0.002, 0.02

OPEN_TOLERANCE_M = 0.005
CLOSED_BELOW_M = 0.01


CONTINUES = (WaypointStatus.REACHED, WaypointStatus.GRIPPER, WaypointStatus.BASE)
GRIPPER_STILL_RUNS = (*CONTINUES, WaypointStatus.STALLED, WaypointStatus.FINGER_CONTACT)


@dataclass(frozen=True)
class ClampedTarget:
    """Where an arm is really sent, after shortening and projection into the workspace."""

    position_m: Array
    rotation: Array
    shortened: bool = False
    projected: bool = False


@dataclass
class Motion:
    """How the moving part of a waypoint ended."""

    status: WaypointStatus
    text: str
    errors: tuple[float, float] | None = None
    contacts: frozenset[Contact] = frozenset()
    base_moved: tuple[float, float, float] | None = None


@dataclass
class MotionProgress:
    """Best errors so far, position and rotation apart; stalled when neither improves any more."""

    position: list[float] = field(default_factory=list)
    rotation: list[float] = field(default_factory=list)

    def add(self, position_m: float, rotation_rad: float) -> None:
        """The errors at one more step."""
        for best, error in ((self.position, position_m), (self.rotation, rotation_rad)):
            best.append(min(error, best[-1]) if best else error)

    @property
    def stalled(self) -> bool:
        """Whether the motion has stopped progressing."""
        if len(self.position) <= STALL_WINDOW:
            return False
        gained_m = self.position[-1 - STALL_WINDOW] - self.position[-1]
        gained_rad = self.rotation[-1 - STALL_WINDOW] - self.rotation[-1]
        return gained_m < STALL_M and gained_rad < STALL_RAD


@dataclass(frozen=True)
class GripperResult:
    """The gripper after a command that ran."""

    opening_m: float
    finger_contact: bool


@dataclass
class GripperCommandState:
    """The last commands of each arm: what the executor keeps between plans."""

    # The sign of the last gripper command, repeated with every step. Before the first one, an
    # open or a closed gripper counts as commanded so, and one in between is left alone.
    grip: dict[str, float]
    rotation: dict[str, Array]  # the last commanded orientation
    last: dict[str, Gripper]  # the last gripper command, skipped ones included

    @classmethod
    def at(cls, arms: Iterable[ArmSpec], state: RobotState) -> GripperCommandState:
        """Before any command: derived from the present state."""
        return cls(
            {a.name: _sign(a, state.arms[a.name].opening_m) for a in arms},
            {n: s.T_base_tip.rotation for n, s in state.arms.items()},
            {},
        )

    def command_rotation(self, rotations: Mapping[str, Array]) -> None:
        """Arms are sent to these orientations."""
        self.rotation |= rotations

    def command_gripper(self, arm: str, command: Gripper, *, skipped: bool) -> None:
        """A gripper command is carried out, or skipped."""
        self.last[arm] = command
        if not skipped:
            self.grip[arm] = 1.0 if command in ("close", "reclose") else -1.0

    def kept_rotations(self, state: RobotState) -> dict[str, Array]:
        """What "keep" keeps: the last commanded orientation, so that small errors do not add up."""
        now = {n: s.T_base_tip.rotation for n, s in state.arms.items()}
        return {
            n: commanded if angle_between(commanded, now[n]) <= REACHED_RAD else now[n]
            for n, commanded in self.rotation.items()
        }


def _sign(arm: ArmSpec, opening_m: float) -> float:
    if opening_m >= arm.max_opening_m - OPEN_TOLERANCE_M:
        return -1.0
    return 1.0 if opening_m < CLOSED_BELOW_M else 0.0


def loose_contacts(state: RobotState, arm: str) -> frozenset[Contact]:
    """What a hand touches, other than a thing held between both fingers."""
    held = state.arms[arm].held
    return frozenset(c for c in state.arms[arm].hand_contacts if c.thing not in held)


def contact_text(contacts: frozenset[Contact]) -> str:
    """Which parts touched what."""
    pairs = sorted(f"{c.part} on {c.thing}" if c.thing else c.part for c in contacts)
    return f"stopped by contact ({', '.join(pairs)})"


def distance_text(errors: tuple[float, float]) -> str:
    """How far a motion stayed from its target; the angle only where it matters."""
    turn = f" and {math.degrees(errors[1]):.0f} deg" if errors[1] > REACHED_RAD else ""
    return f"{100 * errors[0]:.1f} cm{turn} from target"


def whose_text(errors: Mapping[str, tuple[float, float]]) -> str:
    """Which of several arms are not at their targets, behind a distance."""
    away = [n for n, (m, rad) in errors.items() if m > REACHED_M or rad > REACHED_RAD]
    return f" ({' and '.join(away)})" if len(errors) > 1 else ""


def limits_text(joints: Mapping[str, Sequence[str]]) -> str:
    """The joints at their limits; of several moving arms each with its arm."""
    listed = [(name, joint) for name, near in joints.items() for joint in near]
    return ", ".join(sorted(f"{n} {j}" if len(joints) > 1 else j for n, j in listed))


def clamp_notes(targets: Mapping[str, ClampedTarget]) -> list[str]:
    """What clamping changed about the targets of a waypoint."""
    changed = {
        "shortened to 10 cm": [n for n, t in targets.items() if t.shortened],
        "moved into the workspace": [n for n, t in targets.items() if t.projected],
    }
    named = len(targets) > 1
    return [f"{' and '.join(n)} {did}" if named else did for did, n in changed.items() if n]


def guard_notes(phrases: Mapping[str, int]) -> list[str]:
    """What a robot's guard changed about a waypoint's commands, and in how many ticks."""
    said = (f"{what} in {n} tick{'s' * (n != 1)}" for what, n in phrases.items())
    return [f"guard: {', '.join(said)}"] if phrases else []


def norm(v: Array) -> float:
    """Euclidean length."""
    return math.sqrt(float((v * v).sum()))


def shorten(v: Array, limit: float) -> list[float]:
    """The vector, shortened to at most `limit`."""
    length = norm(v)
    return [float(c) for c in (v if length <= limit else v * (limit / length))]
