"""Between the collector and the rig's own process, which owns the arms' drivers and the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from capex.rigs.drivers import ArmFacts
from capex.worlds import ArmState, Command

TICKING_NICENESS = -10  # of both ends on the real clock, where the system lets us: ticks come first


@dataclass(frozen=True)
class RigReading:
    """What the rig measured at the end of a tick; poses in the base frame."""

    arms: Mapping[str, ArmState]  # contact and holding by the rig file's thresholds
    joints_rad: Mapping[str, tuple[float, ...]]
    force_n: Mapping[str, tuple[float, float, float] | None]
    time_s: float  # the rig's clock
    commanded_s: float  # its time at the last command that moved something
    late_s: float = 0.0  # how far past its deadline the tick began
    guard: tuple[str, ...] = ()  # what the guard changed in this tick, a short phrase each
    stopped: str = ""  # why the guard ended the motion
    age_s: Mapping[str, float] = field(default_factory=dict)  # of each arm's state
    errors: Mapping[str, str] = field(default_factory=dict)  # why an arm does not move, or nothing


@dataclass(frozen=True)
class PersonStop:
    """A person pressed stop, in the studio or at the terminal."""

    by: str
    unix_time: float

    @property
    def sentence(self) -> str:
        """What a fault says of it."""
        return f"stopped by {self.by}"


class RigLink(Protocol):
    """The rig's process as the Env sees it. RigFault where it is lost, an arm is in an error that a
    program cannot clear, or an e-stop is pressed.
    """

    @property
    def facts(self) -> Mapping[str, ArmFacts]: ...

    @property
    def process(self) -> int:
        """The number of the rig's process."""

    @property
    def lost(self) -> bool:
        """Whether the process is gone, so that only a new one helps."""

    def tick(self, command: Command) -> RigReading:
        """One control tick: guarded, commanded, and measured at the tick's end."""

    def read(self) -> RigReading:
        """Measure now; nothing is commanded and no time is waited for. Arms that only this was
        asked of were never touched, and are not when the rig is closed.
        """

    def brake(self) -> RigReading:
        """Stop the arms where they are; the next tick goes on from there."""

    def settle(self) -> RigReading:
        """Hold until the arms keep still, then measure."""

    def home(self) -> RigReading:
        """Move every arm to its home pose, slowly and guarded, grippers open; then `tare`."""

    def tare(self) -> RigReading:
        """Take the force that an arm at rest with free fingers measures for its bias."""

    def stop(self) -> None:
        """Stop and hold: what an operator's key does. Motion is allowed again by `clear`."""

    def clear(self) -> None:
        """A person says that it is safe to go on after an e-stop or a stop."""

    def stops(self) -> Sequence[PersonStop]:
        """Every stop of a person's since the process began."""

    def close(self) -> None:
        """Close the drivers and end the process."""
