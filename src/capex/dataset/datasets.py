"""`capex export`: from runs to datasets. A dataset takes its place whole or not at all.

pyarrow, h5py and PyAV are imported when a dataset is written, not before.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from capex import worlds
from capex.dataset.card import Facts, write_card
from capex.dataset.frames import Pipeline
from capex.dataset.selection import (
    Candidate,
    Filters,
    LeftOut,
    Selection,
    find_attempts,
    left_out_csv,
    pair,
    require_known_names,
    select,
    select_failures,
    summary,
)
from capex.dataset.views import recorded_spec
from capex.errors import CapexError, ErrorCode
from capex.run import read_record
from capex.run.files import whole_folder, write_bytes
from capex.run.frames import RecordedFrames, has_frames
from capex.run.steps import read_steps
from capex.run.summary import Summary
from capex.worlds import Spec

Format = Literal["lerobot", "lerobot-v2.1", "lerobot-v3.1", "hdf5"]
Tell = Callable[[str, int, int], None]  # dataset, frames done, frames in all
ALL = Filters()
DEFAULT_PIPELINE = Pipeline()


@dataclass(frozen=True)
class Written:
    """A dataset that now exists."""

    path: Path
    demonstrations: int
    frames: int


@dataclass(frozen=True)
class Exported:
    """What an export wrote, and what it left out."""

    datasets: tuple[Written, ...]
    left_out: tuple[LeftOut, ...]


def export_run(
    runs: Path | Sequence[Path],
    out: Path,
    *,
    format: Format = "lerobot",
    paired: bool = False,
    failures: bool = False,
    filters: Filters = ALL,
    pipeline: Pipeline = DEFAULT_PIPELINE,
    licence: str = "",
    command: str = "",
    parallel: int = 1,
    tell: Tell | None = None,
) -> Exported:
    """Write the demonstrations of runs (or of single chains of them) as a dataset.

    `paired` takes two runs and writes two datasets into `out`, over the starts that both have.
    `failures` writes the failed attempts too, as a dataset named like the other with -failures
    behind it. `tell` reports progress.
    """
    run_dirs = [runs] if isinstance(runs, Path) else list(runs)
    if not run_dirs:
        raise CapexError(
            "no run was given; name at least one run directory", code=ErrorCode.MISSING_SETTING
        )
    if format not in get_args(Format):
        raise CapexError(
            f"there is no format '{format}'; valid: {', '.join(get_args(Format))}",
            code=ErrorCode.UNKNOWN_NAME,
        )
    if pipeline.video and format == "hdf5":
        raise CapexError(
            "--video is for --format lerobot; HDF5 files hold pictures",
            code=ErrorCode.NOT_APPLICABLE,
        )
    candidates = [find_attempts(run_dir) for run_dir in run_dirs]
    require_known_names(itertools.chain(*candidates), filters)
    if paired:
        chosen = _choose_pairs(run_dirs, candidates, filters)
    else:
        candidates = [[attempt for attempts in candidates for attempt in attempts]]
        chosen = [select(out.name, candidates[0], filters)]
        if not chosen[0].attempts:
            names = ", ".join(map(str, run_dirs))
            raise CapexError(
                f"nothing to export from {names}: {_reasons(chosen[0])}", code=ErrorCode.NO_DATA
            )
    failed = [
        select_failures(f"{selection.name}-failures", attempts, filters)
        for selection, attempts in zip(chosen, candidates, strict=True)
        if failures
    ]
    failed = [selection for selection in failed if selection.attempts]
    selections = [*chosen, *failed]
    spec, pipeline = _one_robot([a for s in selections for a in s.attempts], pipeline)
    if format == "hdf5" and spec.records_frames:
        raise CapexError(
            f"{spec.name} has no MuJoCo model; export it with --format lerobot",
            code=ErrorCode.UNSUPPORTED,
        )
    partners = {a.name: b.name for a, b in zip(chosen, reversed(chosen), strict=True) if paired}
    with contextlib.ExitStack() as folders:
        if paired:
            root = folders.enter_context(whole_folder(out))
            targets = [(root / s.name, out / s.name) for s in selections]
            left = [row for selection in chosen for row in selection.left_out]
            write_bytes(root / "left_out.csv", left_out_csv(left).encode())
        else:
            paths = (out, *(out.with_name(s.name) for s in failed))
            targets = [(folders.enter_context(whole_folder(p)), p) for p in paths]
        written = []
        for selection, (folder, path) in zip(selections, targets, strict=True):
            facts = Facts(path.name, format, pipeline, spec, licence, command)
            partner = partners.get(selection.name, "")
            facts = replace(facts, partner=partner, failures=selection in failed)
            _write(selection, folder, facts, parallel, tell)
            frames = sum(a.summary.steps for a in selection.attempts)
            written.append(Written(path, len(selection.attempts), frames))
    return Exported(tuple(written), tuple(row for s in selections for row in s.left_out))


def _choose_pairs(
    run_dirs: Sequence[Path], candidates: Sequence[list[Candidate | LeftOut]], filters: Filters
) -> list[Selection]:
    if len(candidates) != 2:
        raise CapexError(
            f"--paired takes two runs; {len(candidates)} given", code=ErrorCode.BAD_SETTING
        )
    names = [run_dir.resolve().name for run_dir in run_dirs]
    if names[0] == names[1]:
        names = [f"{name}-{number}" for number, name in enumerate(names, start=1)]
    unlimited = _one_method_each(candidates, replace(filters, max=None))
    first, second = map(select, names, candidates, unlimited)
    for side, attempts in zip((first, second), candidates, strict=True):
        if not (side.attempts or side.left_out):
            arms = {_attempted(a).arm for a in attempts}
            raise CapexError(
                f"{side.name} has no attempt by the arms and at the tasks that were named; its arms"
                f" are {', '.join(sorted(arms))}: --arms names an arm of each run",
                code=ErrorCode.NO_DATA,
            )
    both = pair(first, second, filters.max)
    if not both[0].attempts:
        raise CapexError(
            f"no start has a demonstration in both runs: {names[0]}: {_reasons(both[0])};"
            f" {names[1]}: {_reasons(both[1])}",
            code=ErrorCode.NO_DATA,
        )
    return list(both)


def _one_method_each(
    candidates: Sequence[list[Candidate | LeftOut]], filters: Filters
) -> list[Filters]:
    """The filters of each of two runs. Where a run has both of two named methods at a task, one is
    the first run's and the other the second's: in the order given, if each run has its own so.
    """
    held: list[set[tuple[str, str, str]]] = [
        {(a.world, a.task, a.arm) for a in (_attempted(c) for c in run)} for run in candidates
    ]
    orders = [filters.arms, filters.arms[::-1]] if len(filters.arms) == 2 else []
    tasks = {row[:2] for run in held for row in run}
    if any({(*task, arm) for arm in filters.arms} <= run for task in tasks for run in held):
        for order in orders:
            if all(arm in {row[2] for row in run} for arm, run in zip(order, held, strict=True)):
                return [replace(filters, arms=(arm,)) for arm in order]
    return [filters, filters]


def _attempted(candidate: Candidate | LeftOut) -> Summary | LeftOut:
    return candidate.summary if isinstance(candidate, Candidate) else candidate


def _reasons(selection: Selection) -> str:
    reasons = [f"{count} x {reason}" for _, reason, count in summary(selection.left_out)]
    return "; ".join(reasons) or "it holds none"


def _one_robot(attempts: Sequence[Candidate], pipeline: Pipeline) -> tuple[Spec, Pipeline]:
    """The robot of the first attempt and the cameras that see it. Mixed robots are refused: every
    frame of a dataset has the same numbers in the same order, and pictures of the same cameras.
    """
    robots: list[tuple[Spec, Pipeline]] = []
    for name, spec in _specs(attempts):
        robots.append((spec, pipeline.resolve(spec)))
        first, other = (
            (spec.action_names, spec.state_names, spec.control_hz, resolved.sizes)
            for spec, resolved in (robots[0], robots[-1])
        )
        if first != other:
            raise CapexError(
                f"{robots[0][0].name} and {name} have different robots or cameras; export them"
                " apart, with --tasks",
                code=ErrorCode.MISMATCH,
            )
    return robots[0]


def _specs(attempts: Sequence[Candidate]) -> Iterator[tuple[str, Spec]]:
    """Of each task, and of each attempt whose frames were recorded: its robot may have changed."""
    seen = set()
    for episode in (a.summary for a in attempts):
        name = f"{episode.world}:{episode.task}"
        if has_frames(episode.path):
            record, steps = read_record(episode.path), read_steps(episode.path)
            yield name, recorded_spec(record, steps, RecordedFrames(episode.path))
        elif name not in seen:
            env = worlds.make(name)
            yield name, env.spec
            env.close()
        seen.add(name)


def _write(
    selection: Selection, folder: Path, facts: Facts, parallel: int, tell: Tell | None
) -> None:
    """Write one dataset."""
    from capex.dataset import features, hdf5, lerobot, lerobot21

    def told(done: int, total: int) -> None:
        if tell is not None:
            tell(facts.title, done, total)

    folder.mkdir(exist_ok=True)
    attempts, pipeline = selection.attempts, facts.pipeline
    if facts.format == "hdf5":
        write_card(folder, selection, facts)
        hdf5.write_file(folder, attempts, pipeline, parallel=parallel, tell=told)
        return
    version = features.VERSIONS[facts.format]
    layout = features.DatasetLayout(facts.spec, pipeline, version)
    card = partial(write_card, folder, selection, facts)
    write = lerobot21.write_dataset if version == "v2.1" else lerobot.write_dataset
    write(folder, attempts, layout, parallel=parallel, tell=told, finish=card)
