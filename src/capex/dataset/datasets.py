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
    Attempt,
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
from capex.run.store import whole_folder, write_bytes

Format = Literal["lerobot", "hdf5"]
Tell = Callable[[str, int, int], None]  # dataset, frames done, frames in all
ALL = Filters()
DEFAULT_PIPELINE = Pipeline()
CRF = 18


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
    pipeline: Pipeline
    use_video: bool
    crf: int
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
    use_video: bool = False,
    crf: int = CRF,
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
    if use_video:
        if format == "hdf5":
            raise CapexError("--video is for --format lerobot; HDF5 files hold pictures")
        if pipeline.size[0] % 2 or pipeline.size[1] % 2:
            raise CapexError(
                f"--size is {pipeline.size[0]} {pipeline.size[1]}; video needs an even width and"
                " height"
            )
    order = _Order(format, pipeline, use_video, crf, licence, command, parallel, tell)
    found = [(place, find_attempts(place)) for place in places]
    chosen = _choose_pairs(found, filters) if paired else [_choose(out.name, found, filters)]
    failed = _choose_failures(chosen, found, filters, paired) if failures else []
    _one_robot([a for selection in (*chosen, *failed) for a in selection.attempts], pipeline)
    with contextlib.ExitStack() as folders:
        written = []
        if paired:
            root = folders.enter_context(whole_folder(out))
            for selection, other in zip(chosen, reversed(chosen), strict=True):
                written.append(
                    _write(
                        selection,
                        root / selection.name,
                        out / selection.name,
                        order,
                        partner=other.name,
                    )
                )
            for selection in failed:
                written.append(
                    _write(
                        selection, root / selection.name, out / selection.name, order, failures=True
                    )
                )
            left = [row for selection in chosen for row in selection.left_out]
            write_bytes(root / "left_out.csv", left_out_csv(left).encode())
        else:
            places = [out, *(out.with_name(selection.name) for selection in failed)]
            rooms = [folders.enter_context(whole_folder(place)) for place in places]
            for selection, room, place in zip((*chosen, *failed), rooms, places, strict=True):
                written.append(_write(selection, room, place, order, failures=place != out))
    return Exported(
        tuple(written), tuple(row for selection in (*chosen, *failed) for row in selection.left_out)
    )


def _choose(name: str, found: Sequence[tuple[Path, list[Attempt]]], filters: Filters) -> Selection:
    chosen = select(name, [a for _, attempts in found for a in attempts], filters)
    if not chosen.attempts:
        raise CapexError(
            f"nothing to export from {', '.join(str(place) for place, _ in found)}:"
            f" {_reasons(chosen)}"
        )
    return chosen


def _choose_pairs(found: Sequence[tuple[Path, list[Attempt]]], filters: Filters) -> list[Selection]:
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
    found: Sequence[tuple[Path, list[Attempt]]],
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


def _one_robot(attempts: Sequence[Attempt], pipeline: Pipeline) -> None:
    """Refuse to mix robots: every frame of a dataset has the same numbers in the same order, and
    pictures of the same cameras.
    """
    first: tuple[str, object] | None = None
    for name in dict.fromkeys(f"{a.world}:{a.task}" for a in attempts):
        env = worlds.make(name)
        robot = (
            env.spec.action_names,
            env.spec.state_names,
            env.spec.control_hz,
            pipeline.check(env),
        )
        env.close()
        first = first or (name, robot)
        if robot != first[1]:
            raise CapexError(
                f"{first[0]} and {name} have different robots or cameras; export them apart, with"
                " --tasks"
            )


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
    env = worlds.make(f"{attempts[0].world}:{attempts[0].task}")
    cameras, spec = order.pipeline.check(env), env.spec
    facts = Facts(
        title=name,
        format=order.format,
        size=order.pipeline.size,
        cameras=cameras,
        pictures_as=(
            f"h264 video (crf {order.crf})"
            if order.use_video
            else "PNG"
            if order.format == "lerobot"
            else "uint8 arrays"
        ),
        state_names=spec.state_names,
        action_names=spec.action_names,
        licence=order.licence,
        command=order.command,
        partner=partner,
        failures=failures,
    )

    def tell(done: int, total: int) -> None:
        if order.tell is not None:
            order.tell(name, done, total)

    if order.format == "lerobot":
        layout = features.Layout(spec, cameras, order.pipeline, order.use_video, order.crf)
        lerobot.write_dataset(
            folder,
            attempts,
            layout,
            parallel=order.parallel,
            tell=tell,
            finish=lambda at: write_card(at, selection, facts),
        )
    else:
        write_card(folder, selection, facts)
        hdf5.write_file(
            folder, attempts, cameras, order.pipeline, parallel=order.parallel, tell=tell
        )
    return Written(place, len(attempts), sum(a.steps for a in attempts))
