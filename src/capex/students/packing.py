"""Frames straight from a run's episodes into a pack: no pictures are encoded in between, and
pyarrow is not needed. It holds what `capex export` and unpacking its dataset give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.dataset.frames import Pipeline, Take, open_take
from capex.dataset.selection import (
    Candidate,
    Filters,
    Selection,
    find_attempts,
    require_known_names,
    select,
)
from capex.errors import CapexError, ErrorCode
from capex.run.files import whole_folder
from capex.run.jobs import run_jobs
from capex.students.data import IMAGES, Demonstration, finish_pack

Numbers = npt.NDArray[np.float32]
OnFrames = Callable[[int, int], None]  # frames done, frames in all


@dataclass(frozen=True)
class Shot:
    """What a pack says of one episode besides its pictures."""

    states: Numbers
    actions: Numbers
    head: dict[str, Any]


@dataclass(frozen=True)
class Shooting:
    """One episode to be drawn, and where its frames belong in the file of images."""

    episode: Path
    images: Path
    begin: int
    pipeline: Pipeline


def export_pack(
    runs: Sequence[Path],
    out: Path,
    filters: Filters,
    pipeline: Pipeline,
    *,
    parallel: int = 1,
    tell: OnFrames = lambda done, total: None,
) -> Selection:
    """Write the demonstrations of runs, or of single chains of them, as a pack; returns what was
    taken and what was left out.
    """
    attempts = [attempt for run in runs for attempt in find_attempts(run)]
    require_known_names(attempts, filters)
    chosen = select(out.name, attempts, filters)
    if not chosen.attempts:
        names, reasons = ", ".join(map(str, runs)), {row.reason for row in chosen.left_out}
        raise CapexError(
            f"nothing to export from {names}: {'; '.join(sorted(reasons))}", code=ErrorCode.NO_DATA
        )
    pack_attempts(chosen.attempts, out, pipeline, parallel=parallel, tell=tell)
    return chosen


def pack_attempts(
    attempts: Sequence[Candidate],
    out: Path,
    pipeline: Pipeline,
    *,
    parallel: int = 1,
    tell: OnFrames = lambda done, total: None,
) -> None:
    """Draw the frames of demonstrations, in order, and write them as a pack, whole or not
    at all.
    """
    lengths = [a.summary.steps for a in attempts]
    ends = np.cumsum(lengths).tolist()
    first = open_take(attempts[0].summary.path)
    cameras = pipeline.resolve(first.spec).sizes
    if len(set(cameras.values())) > 1:
        raise CapexError(
            f"{out}: the cameras have pictures of different sizes; give one, --size",
            code=ErrorCode.MISMATCH,
        )
    width, height = next(iter(cameras.values()))
    shape = (ends[-1], len(cameras), height, width, 3)
    with whole_folder(out) as folder:
        folder.mkdir(exist_ok=True)
        images = folder / IMAGES
        np.lib.format.open_memmap(images, "w+", np.uint8, shape)  # type: ignore[no-untyped-call]
        jobs = [
            Shooting(a.summary.path, images, end - length, pipeline)
            for a, end, length in zip(attempts, ends, lengths, strict=True)
        ]
        shots: dict[int, Shot] = {}
        for index, shot in run_jobs(_shoot, jobs, parallel):
            if isinstance(shot, CapexError):
                raise shot
            shots[index] = shot
            tell(sum(len(s.actions) for s in shots.values()), ends[-1])
        ordered = [shots[k] for k in range(len(attempts))]
        head = ordered[0].head
        if any(shot.head != head for shot in ordered):
            raise CapexError(
                f"{out}: the demonstrations are of different robots or cameras",
                code=ErrorCode.MISMATCH,
            )
        states = np.concatenate([shot.states for shot in ordered])
        actions = np.concatenate([shot.actions for shot in ordered])
        finish_pack(folder, head, states, actions, list(_episodes(attempts, ends)))


def _shoot(job: Shooting) -> Shot:
    take = open_take(job.episode)
    pipeline = job.pipeline.resolve(take.spec)
    images = np.lib.format.open_memmap(job.images, "r+")  # type: ignore[no-untyped-call]
    for k, views in enumerate(take.pictures(pipeline), start=job.begin):
        for number, camera in enumerate(pipeline.cameras):
            images[k, number] = views[camera]
    images.flush()
    return Shot(
        take.state.astype(np.float32), take.action.astype(np.float32), _head(take, pipeline)
    )


def _head(take: Take, pipeline: Pipeline) -> dict[str, Any]:
    return {
        "cameras": list(pipeline.cameras),
        "state_names": list(take.state_names),
        "action_names": list(take.spec.action_names),
        "fps": take.spec.control_hz,
    }


def _episodes(attempts: Sequence[Candidate], ends: Sequence[int]) -> Iterator[Demonstration]:
    for attempt, end in zip(attempts, ends, strict=True):
        e = attempt.summary
        known = {name: getattr(e, name) for name in ("world", "task", "start", "seed", "stand_in")}
        yield Demonstration(
            end - e.steps,
            end,
            e.instruction,
            source=e.arm,
            certified=attempt.certified,
            judge=attempt.judge,
            **known,
        )
