"""`capex export`: from runs to datasets. Chooses, pairs, renders, writes; a dataset takes its place
whole or not at all.

pyarrow, h5py and PyAV are imported when a dataset is written, not before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from capex import worlds
from capex.dataset.frames import Pipeline
from capex.dataset.selection import (
    Candidate,
    Filters,
    LeftOut,
    Selection,
    find_attempts,
    left_out_csv,
    pair,
    select,
    select_failures,
    summary,
)
from capex.errors import CapexError
from capex.run.files import whole_folder, write_bytes
from capex.worlds import Spec

Format = Literal["lerobot", "hdf5"]
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


@dataclass(frozen=True)
class _Order:
    """Everything that the datasets of one export share."""

    format: Format
    spec: Spec
    pipeline: Pipeline
    licence: str
    command: str
    parallel: int
    tell: Tell | None


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
    places = [runs] if isinstance(runs, Path) else list(runs)
    if not places:
        raise CapexError("no run was given; name at least one run directory")
    if format not in ("lerobot", "hdf5"):
        raise CapexError(f"there is no format '{format}'; valid: lerobot, hdf5")
    if pipeline.video:
        if format == "hdf5":
            raise CapexError("--video is for --format lerobot; HDF5 files hold pictures")
        if pipeline.size[0] % 2 or pipeline.size[1] % 2:
            raise CapexError(
                f"--size is {pipeline.size[0]} {pipeline.size[1]}; video needs an even width and"
                " height"
            )
    found = [(place, find_attempts(place)) for place in places]
    chosen = _choose_pairs(found, filters) if paired else [_choose(out.name, found, filters)]
    failed = _choose_failures(chosen, found, filters, paired) if failures else []
    spec, pipeline = _one_robot([a for s in (*chosen, *failed) for a in s.attempts], pipeline)
    order = _Order(format, spec, pipeline, licence, command, parallel, tell)
    selections = [*chosen, *failed]
    partners = {a.name: b.name for a, b in zip(chosen, reversed(chosen), strict=True) if paired}
    with contextlib.ExitStack() as folders:
        if paired:
            root = folders.enter_context(whole_folder(out))
            targets = [(root / s.name, out / s.name) for s in selections]
            left = [row for selection in chosen for row in selection.left_out]
            write_bytes(root / "left_out.csv", left_out_csv(left).encode())
        else:
            targets = [
                (folders.enter_context(whole_folder(place)), place)
                for place in (out, *(out.with_name(s.name) for s in failed))
            ]
        written = [
            _write(s, *target, order, partner=partners.get(s.name, ""), failures=s in failed)
            for s, target in zip(selections, targets, strict=True)
        ]
    return Exported(tuple(written), tuple(row for s in selections for row in s.left_out))


def _choose(
    name: str, found: Sequence[tuple[Path, list[Candidate]]], filters: Filters
) -> Selection:
    chosen = select(name, [a for _, attempts in found for a in attempts], filters)
    if not chosen.attempts:
        raise CapexError(
            f"nothing to export from {', '.join(str(place) for place, _ in found)}:"
            f" {_reasons(chosen)}"
        )
    return chosen


def _choose_pairs(
    found: Sequence[tuple[Path, list[Candidate]]], filters: Filters
) -> list[Selection]:
    if len(found) != 2:
        raise CapexError(f"--paired takes two runs; {len(found)} given")
    names = [place.resolve().name for place, _ in found]
    if names[0] == names[1]:
        names = [f"{name}-{number}" for number, name in enumerate(names, start=1)]
    each = [
        select(name, attempts, replace(filters, max=None))
        for name, (_, attempts) in zip(names, found, strict=True)
    ]
    both = pair(each[0], each[1], filters.max)
    if not both[0].attempts:
        raise CapexError(
            f"no start has a demonstration in both runs: {names[0]}: {_reasons(both[0])};"
            f" {names[1]}: {_reasons(both[1])}"
        )
    return list(both)


def _choose_failures(
    chosen: Sequence[Selection],
    found: Sequence[tuple[Path, list[Candidate]]],
    filters: Filters,
    paired: bool,
) -> list[Selection]:
    """The failed attempts, per run when paired; runs without any give no dataset."""
    groups = (
        [attempts for _, attempts in found]
        if paired
        else [[a for _, attempts in found for a in attempts]]
    )
    failed = [
        select_failures(f"{s.name}-failures", attempts, filters)
        for s, attempts in zip(chosen, groups, strict=True)
    ]
    return [selection for selection in failed if selection.attempts]


def _reasons(selection: Selection) -> str:
    return (
        "; ".join(f"{count} x {reason}" for _, reason, count in summary(selection.left_out))
        or "it holds none"
    )


def _one_robot(attempts: Sequence[Candidate], pipeline: Pipeline) -> tuple[Spec, Pipeline]:
    """The robot of the first attempt and the cameras that see it. Mixed robots are refused: every
    frame of a dataset has the same numbers in the same order, and pictures of the same cameras.
    """
    robots: list[tuple[Spec, Pipeline]] = []
    for name in dict.fromkeys(f"{a.world}:{a.task}" for a in attempts):
        env = worlds.make(name)
        robots.append((env.spec, pipeline.resolve(env.spec)))
        env.close()
        numbers = [
            (spec.action_names, spec.state_names, spec.control_hz, resolved.cameras)
            for spec, resolved in robots
        ]
        if numbers[-1] != numbers[0]:
            raise CapexError(
                f"{robots[0][0].name} and {name} have different robots or cameras; export them"
                " apart, with --tasks"
            )
    return robots[0]


def _write(
    selection: Selection,
    folder: Path,
    place: Path,
    order: _Order,
    *,
    partner: str = "",
    failures: bool = False,
) -> Written:
    """Write one dataset into `folder`, which will stand at `place`."""
    from capex.dataset import features, hdf5, lerobot
    from capex.dataset.card import Facts, write_card

    folder.mkdir(exist_ok=True)
    attempts, name = selection.attempts, place.name
    facts = Facts(
        title=name,
        format=order.format,
        pipeline=order.pipeline,
        spec=order.spec,
        licence=order.licence,
        command=order.command,
        partner=partner,
        failures=failures,
    )

    def tell(done: int, total: int) -> None:
        if order.tell is not None:
            order.tell(name, done, total)

    if order.format == "lerobot":
        lerobot.write_dataset(
            folder,
            attempts,
            features.Layout(order.spec, order.pipeline),
            parallel=order.parallel,
            tell=tell,
            finish=lambda at: write_card(at, selection, facts),
        )
    else:
        write_card(folder, selection, facts)
        hdf5.write_file(folder, attempts, order.pipeline, parallel=order.parallel, tell=tell)
    return Written(place, len(attempts), sum(a.steps for a in attempts))
