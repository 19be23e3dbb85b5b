"""The beginning of an attempt where somebody stands beside the robot: the scene is arranged and
kept, frames are recorded, and what has begun is noted on disk before the first command.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from capex.errors import RigFault
from capex.method.executor import Tick
from capex.method.hooks import Event
from capex.operators import Operator, Standby
from capex.operators.arrangements import (
    Arrangement,
    Match,
    arrangements_of,
    find_arrangement,
    made_by,
    read_image,
    store_arrangement,
    write_match,
)
from capex.operators.matching import MatchView, compare_all, mean_difference
from capex.operators.scenes import Scenes
from capex.run.files import write_json
from capex.run.store import Chain
from capex.worlds import Env, FrameRecording, Image, Spec, Start
from capex.worlds.robots import when_we_die

FRAMES = "frames"  # the folder of an attempt
RIG_FACTS = "rig.json"  # of a run: what its arms do when our processes end without a word


def exterior_images(env: Env) -> dict[str, Image]:
    """What the cameras that stand in the room see now."""
    return env.observe([c.name for c in env.spec.cameras if c.kind == "exterior"])


def scene_name(start: Start, standby: Standby) -> str:
    """How a scene that is waited for is called, on the terminal and in the studio."""
    return f"{standby.chain} start {start.index}"


def match_view(start: Start, arrangement: Arrangement | None, standby: Standby) -> MatchView:
    """The files by which a person sees how far the scene is from the stored one."""
    files = {} if arrangement is None else arrangement.images
    about: dict[str, object] = {"chain": standby.chain, "start": start.index}
    if arrangement is not None:
        about |= {"source": arrangement.source, "notes": arrangement.notes}
    stored = {camera: read_image(path) for camera, path in files.items()}
    return MatchView(standby.run_dir, stored, scene_name(start, standby), about)


@dataclass
class Arranging:
    """Of one attempt, from before the reset to its end: `prepare` and `hear` are given to the
    attempt's hooks. While the robot moves, home as well, the operator attends it.
    """

    env: Env
    chain: Chain
    folder: Path  # the attempt's, while it is written
    operator: Operator | None
    scenes: Scenes | None
    standby: Standby
    begin: Sequence[Callable[[], None]]  # called when the scene is ready
    phase: Callable[[str], None]  # told that somebody arranges it, and that they are done
    _recording: FrameRecording | None = field(default=None, repr=False)
    _attended: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, repr=False)
    end_now: Callable[[], bool] = lambda: False  # whether the operator ends the attempt

    def prepare(self, env: Env, start: Start) -> None:
        """The scene is arranged and its pictures are kept; returns when the attempt may begin."""
        if self.operator is not None and env.spec.success == "operator":
            self._attended.close()
            self.phase("arranging")
            self._arrange(env, start, self.operator)
            self.phase("simulating")
        if env.spec.records_frames:
            self._recording = env.record_frames(self.folder / FRAMES)
            self._recording.mark()
        self._keep_facts(env)
        self._attend()
        for begin in self.begin:
            begin()

    def hear(self, event: Event) -> None:
        """A tick's pictures belong to its state."""
        if isinstance(event, Tick) and self._recording is not None:
            self._recording.mark()

    def __enter__(self) -> Arranging:
        self._attend()
        return self

    def _attend(self) -> None:
        if self.operator is not None and self.env.spec.success == "operator":
            self.end_now = self._attended.enter_context(self.operator.attend(self.env))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Every picture is on disk; RigFault where some were lost, unless the attempt failed
        anyway.
        """
        self._attended.close()
        recording, self._recording = self._recording, None
        if recording is not None:
            with contextlib.suppress(*([RigFault] if kind is not None else [])):
                recording.close()

    def _keep_facts(self, env: Env) -> None:
        path = self.standby.run_dir / RIG_FACTS
        if not path.exists() and (sentences := when_we_die(env)):
            write_json(path, {"when_we_die": dict(sentences)})

    def _arrange(self, env: Env, start: Start, operator: Operator) -> None:
        place = arrangements_of(self.chain)
        stored = find_arrangement(place, start.index) or self._taken(env.spec, place, start.index)
        match = operator.arrange(env, start, stored, self.standby)
        images = exterior_images(env)
        if stored is None:
            source = made_by(self.chain.path.name)
            stored = store_arrangement(place, start.index, images, source, match.notes)
            match = replace(match, score=None, changed=None)
        else:
            match = measured(match, stored, images)
        write_match(self.folder, replace(match, arrangement=stored.folder.name), images)

    def _taken(self, spec: Spec, place: Path, start: int) -> Arrangement | None:
        """From another run, a folder of pictures or a dataset, where the user named one."""
        if self.scenes is None or start not in self.scenes.starts():
            return None
        images = self.scenes.images(spec, start)
        return store_arrangement(place, start, images, f"{self.scenes.name}, start {start}")


def measured(match: Match, stored: Arrangement, images: Mapping[str, Image]) -> Match:
    """A match with the difference between the stored pictures and those of the attempt."""
    differences = compare_all({c: read_image(p) for c, p in stored.images.items()}, images)
    if not differences:
        return replace(match, score=None, changed=None)
    score, changed = mean_difference(differences)
    return replace(match, score=score, changed=changed)
