"""Extensions of attempts: the interface that they see, and the list that an attempt gets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capex.campaign.core import Lease
from capex.errors import RigFault
from capex.method.context import AttemptExtension, Event, Intervention
from capex.method.executor import Tick
from capex.method.record import EpisodeRecord
from capex.registry import ATTEMPT_REQUESTS, ROBOT_EXTENSIONS, load
from capex.run import control
from capex.run.store import FRAMES, Chain
from capex.worlds import Env, FrameRecording, Start


@dataclass
class Attempt:
    """An attempt as its extensions see it."""

    env: Env
    chain: Chain
    start: int  # the number of its folder
    folder: Path  # where it is written
    lease: Lease
    announce: Callable[..., None]  # an event by name for those who watch the attempt
    begun: Callable[[], None]  # to be called when the scene is ready: the robot may move
    continues: bool  # it begins with the exchanges of an attempt that was cut off
    extensions: list[CampaignExtension] = field(default_factory=list)

    @property
    def run_dir(self) -> Path:
        """The run that it belongs to."""
        return self.chain.path.parent.parent

    @property
    def place(self) -> tuple[Path, str, int]:
        """Run, chain and start."""
        return self.run_dir, self.chain.path.name, self.start

    def end_now(self) -> bool:
        """Whether an extension ends the attempt."""
        return any(extension.end_now() for extension in self.extensions)


class CampaignExtension(AttemptExtension):
    """An extension of an attempt that a campaign writes."""

    def note_fields(self) -> Mapping[str, Any]:
        """The fields of this extension in the note of an invalid attempt."""
        return {}

    def duration_s(self, record: EpisodeRecord, model_s: float) -> float | None:
        """The duration of an attempt in a world with its own clock; None: wall time."""
        return None

    def committed(self) -> None:
        """The record is on disk."""


# Made in the process of the attempt, so it must be picklable where attempts run elsewhere.
ExtensionFactory = Callable[[Attempt], CampaignExtension]


class FrameRecorder(CampaignExtension):
    """Records the cameras of a world whose states cannot be drawn again."""

    def __init__(self, attempt: Attempt):
        self._folder = attempt.folder / FRAMES
        self._recording: FrameRecording | None = None

    def prepare(self, env: Env, start: Start) -> None:
        self._recording = env.record_frames(self._folder)
        self._recording.mark()

    def on_event(self, event: Event) -> None:
        if isinstance(event, Tick) and self._recording is not None:
            self._recording.mark()

    def close(self) -> None:
        """Every picture is on disk; RigFault where some were lost."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close()


class RequestReader(CampaignExtension):
    """Loads the extension for people's requests once there is one."""

    def __init__(self, attempt: Attempt):
        self._attempt = attempt
        self._requests: CampaignExtension | None = None
        if not attempt.continues:
            control.forget_attempt(*attempt.place)
        self._load_if(control.attempt_requested(*attempt.place))

    def _load_if(self, needed: bool) -> None:
        if needed and self._requests is None:
            self._requests = load(ATTEMPT_REQUESTS)(self._attempt)

    def before_decision(self, number: int) -> Intervention | None:
        run, chain, start = self._attempt.place
        if self._requests is None and (run / control.REQUESTS).is_dir():
            paused = control.requested(run, "pause") is not None
            self._load_if(paused or control.attempt_requested(run, chain, start))
        return None if self._requests is None else self._requests.before_decision(number)

    def record_fields(self, record: EpisodeRecord) -> EpisodeRecord:
        return record if self._requests is None else self._requests.record_fields(record)

    def committed(self) -> None:
        if self._requests is not None:
            self._requests.committed()


def extensions_of(
    attempt: Attempt, given: Sequence[ExtensionFactory], *, requests: bool
) -> list[CampaignExtension]:
    """The extensions of an attempt in order: those given, those that its world needs, and, with
    `requests`, those of people.
    """
    spec, found = attempt.env.spec, attempt.extensions
    for factory in given:
        found.append(factory(attempt))
    if spec.records_frames:
        found.append(FrameRecorder(attempt))
    if spec.exclusive:
        found += [load(name)(attempt) for name in ROBOT_EXTENSIONS]
    if requests:
        found.append(RequestReader(attempt))
    return found


@contextlib.contextmanager
def closing(extensions: Sequence[AttemptExtension]) -> Iterator[None]:
    """Close extensions in the end, the last one first. Where the attempt itself failed, their
    faults are left out.
    """
    failed = True
    try:
        yield
        failed = False
    finally:
        fault: RigFault | None = None
        for extension in reversed(extensions):
            try:
                extension.close()
            except RigFault as found:
                fault = fault or found
        if fault is not None and not failed:
            raise fault
