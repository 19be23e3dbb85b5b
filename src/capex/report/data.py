"""Run directories as plain rows: one per episode, one per invalidated attempt. Knows nothing of
tables, figures or pages.

Records are read chain by chain and reduced at once, so that ten thousand of them fit. What cannot
be read is left out and said so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.errors import CapexError
from capex.method.record import Turn
from capex.models import Usage
from capex.pose import Array
from capex.run import Damaged, InvalidAttempt, LoadedChain, LoadedEpisode, load_chain
from capex.run.accounts import Taken, invalid_attempts, of_episode, unrecorded
from capex.run.spend import Account, Slot, Spend
from capex.run.store import SPEND, TEMPORARY, Chain, Run, find_run, read_json

NO_LABEL = -1
StartKey = tuple[str, str, int, int]  # world, task, index, seed
Dollars = tuple[
    float, float
]  # known, and at most: requests that may have been billed count with their worst case


@dataclass(frozen=True, slots=True)
class Waypoints:
    """All waypoints of an episode's plans in order, as columns (n,)."""

    plan: npt.NDArray[np.int32]  # which plan of the episode, from 0
    place: npt.NDArray[np.int32]  # k, from 1
    stated: Array  # nan where none was stated
    calibrated: Array  # as predicted before the episode; nan where nothing was
    label: npt.NDArray[np.int8]  # 1, 0 or NO_LABEL


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One whole attempt."""

    run: int  # index into RunData.runs
    path: Path
    chain: str
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    seed: int
    position: int  # place in the chain's order
    success: bool | None
    end: str
    steps: int
    decisions: int
    spent: int  # decisions that passed without motion
    requests: int
    wire_attempts: int | None  # requests with their retries; None where no ledger was kept
    cost_usd: float | None  # as recorded; None where part of it is not known
    usd: Dollars | None  # None where there is no price
    tokens: Usage | None
    seconds: float
    unix_time: float | None
    instruction: str
    labels_before: int
    weights: tuple[float, ...] | None
    plans: int
    truncated: int
    calls: tuple[int, ...]  # replies that each decision took
    waypoints: Waypoints
    student: Mapping[str, Any] | None = (
        None  # what is known of the trained policy that acted, if one did
    )

    @property
    def key(self) -> StartKey:
        """What two arms must share to be paired."""
        return self.world, self.task, self.start, self.seed


@dataclass(frozen=True, slots=True)
class CostRow:
    """What was paid for and is no episode: an attempt that an error invalidated, or, without an
    error, what attempts at a start took that left no record. Whatever a later attempt took over is
    counted there.
    """

    run: int
    chain: str
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    error: str  # empty for what left no record
    requests: int
    wire_attempts: int
    usd: Dollars | None
    tokens: Usage | None
    seconds: float


@dataclass(frozen=True)
class RunInfo:
    """A run directory and what its manifest says; settings are None where it cannot be read."""

    name: str
    path: Path
    given: Path  # as the user wrote it
    settings: Mapping[str, Any] | None
    manifest: Mapping[str, Any]
    inherited: Mapping[str, Any] | None = (
        # for episodes that a fork began with: what its manifest says of the run that made them
        None
    )

    def arm(self, name: str) -> Mapping[str, Any]:
        """The settings of an arm as the manifest has them; empty where it does not say."""
        arms = (self.settings or {}).get("arms", {})
        found = arms.get(name, {}) if isinstance(arms, Mapping) else {}
        return found if isinstance(found, Mapping) else {}


@dataclass
class RunData:
    """Everything that the given runs hold."""

    runs: list[RunInfo] = field(default_factory=list)
    episodes: list[EpisodeRow] = field(default_factory=list)
    invalid: list[CostRow] = field(default_factory=list)
    lost: list[CostRow] = field(default_factory=list)  # what left no record
    problems: list[str] = field(
        default_factory=list
    )  # a sentence for each thing missing or unreadable
    origins: list[str] = field(
        default_factory=list
    )  # a sentence for each fork: where its episodes come from

    def place(self, episode: EpisodeRow) -> Path:
        """Where an episode lies, under the name by which the user knows its run."""
        run = self.runs[episode.run]
        return run.given / episode.path.relative_to(run.path)


def load(paths: Sequence[Path]) -> RunData:
    """Read runs. A folder that is no run is refused; a damaged record inside one becomes a sentence
    in `problems`.
    """
    unique = {path.resolve(): path for path in reversed(paths)}
    names = _names(list(unique))
    data = RunData()
    for path in reversed(unique):
        run = find_run(path)
        info = _info(run, names[path], unique[path], data.problems)
        data.runs.append(info)
        _read(run, info, len(data.runs) - 1, data)
    _leave_out_copies(data)
    return data


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """A short name for each run: the folder's, with its parent's where two are alike."""
    twice = {p.name for p in paths if sum(q.name == p.name for q in paths) > 1}
    return {p: f"{p.parent.name}/{p.name}" if p.name in twice else p.name for p in paths}


def _info(run: Run, name: str, given: Path, problems: list[str]) -> RunInfo:
    try:
        manifest = read_json(run.path / "manifest.json")
    except CapexError as error:
        problems.append(
            f"Run {name}: {error}. Its settings are not known, so it is kept apart from all others."
        )
        return RunInfo(name, run.path, given, None, {})
    settings = manifest.get("settings")
    return RunInfo(
        name, run.path, given, settings if isinstance(settings, Mapping) else None, manifest
    )


def _read(run: Run, info: RunInfo, number: int, data: RunData) -> None:
    held: dict[tuple[str, str], dict[str, set[int]]] = {}
    asked: dict[tuple[str, str], set[int]] = {}
    successes: dict[tuple[str, str, str], int] = {}
    chains = run.chains()
    slots = _slots(run, info, data.problems)
    lineage = _lineage(info)
    before = len(data.episodes)
    for chain in chains:
        loaded = load_chain(chain)
        first = len(data.episodes)
        damaged = list(loaded.damaged)
        rest, owner, books = loaded, number, slots
        for ancestor in lineage:
            inherited, own = _split(rest, ancestor.origin)
            damaged += _add(own, owner, books, data)
            rest, owner, books = inherited, _number(ancestor, info, data), {}
        damaged += _add(rest, owner, books, data)
        for damage in damaged:
            place = damage.path.relative_to(run.path)
            data.problems.append(
                f"Run {info.name}: {place} was left out:"
                f" {damage.reason.replace(str(damage.path) + '/', '')}."
            )
        starts = {e.start for e in data.episodes[first:]} | {a.index for a in loaded.invalid}
        held.setdefault((loaded.world, loaded.task), {})[loaded.arm] = starts
        try:
            asked.setdefault((loaded.world, loaded.task), set()).update(chain.asked())
        except CapexError as error:
            data.problems.append(f"Run {info.name}: {error}.")
        successes[loaded.world, loaded.task, loaded.arm] = loaded.successes
        if cut := _being_written(chain):
            what = f"{chain.path.name} has {cut} unfinished {'attempt' if cut == 1 else 'attempts'}"
            data.problems.append(f"Run {info.name}: {what}, running now or cut off.")
    data.problems += _unfinished(info, held, asked, successes)
    if len(data.episodes) == before:
        what = "holds no chain yet" if not chains else "holds no readable episode"
        data.problems.append(f"Run {info.name} {what}: there is nothing to report from it.")


def _being_written(chain: Chain) -> int:
    return (
        len(list(chain.episodes_path.glob(f"{TEMPORARY}*"))) if chain.episodes_path.is_dir() else 0
    )


def _slots(run: Run, info: RunInfo, problems: list[str]) -> Mapping[Slot, Account]:
    try:
        return Spend(run.path / SPEND).slots()
    except CapexError as error:
        problems.append(f"Run {info.name}: {error}. What left no record is therefore not counted.")
        return {}


def _add(
    chain: LoadedChain, run: int, slots: Mapping[Slot, Account], data: RunData
) -> list[Damaged]:
    """Take a chain's rows in; returns what could not be read."""
    damaged = []
    for found in chain.episodes:
        try:
            data.episodes.append(_episode(found, run))
        except (TypeError, ValueError, AttributeError) as error:
            damaged.append(Damaged(found.path, f"it garbles a field ({error})"))
    info = data.runs[run]
    data.invalid += [
        _invalid(a.index, a.error, a.record, taken, chain, info, run)
        for a, taken in invalid_attempts(chain)
    ]
    data.lost += [
        _invalid(start, "", {}, taken, chain, info, run)
        for start, taken in sorted(unrecorded(chain, slots).items())
    ]
    return damaged


@dataclass(frozen=True)
class _Ancestor:
    """A run that a fork, or the run it was forked from, began with: what the manifest says of it,
    and its settings.
    """

    origin: Mapping[str, Any]
    settings: Mapping[str, Any]


def _lineage(info: RunInfo) -> list[_Ancestor]:
    """The runs that a run descends from by forks, the nearest first."""
    found: list[_Ancestor] = []
    origin, settings = info.manifest.get("forked_from"), info.settings or {}
    while isinstance(origin, Mapping) and isinstance(origin.get("episodes"), Mapping):
        settings = _with_changes_undone(settings, origin.get("changed") or ())
        found.append(_Ancestor(origin, settings))
        origin = origin.get("forked_from")
    return found


def _split(chain: LoadedChain, origin: Mapping[str, Any]) -> tuple[LoadedChain, LoadedChain]:
    """A fork's chain in two: the attempts that it began with, and its own."""
    starts = set(origin["episodes"].get(chain.name, ()))
    names = (origin.get("invalid") or {}).get(chain.name)

    def copied(attempt: InvalidAttempt) -> bool:
        return attempt.path.name in names if names is not None else attempt.index in starts

    def part(inherited: bool) -> LoadedChain:
        episodes = tuple(e for e in chain.episodes if (e.index in starts) == inherited)
        return replace(
            chain,
            episodes=episodes,
            invalid=tuple(a for a in chain.invalid if copied(a) == inherited),
        )

    return part(True), part(False)


def _number(ancestor: _Ancestor, fork: RunInfo, data: RunData) -> int:
    """The number of the run under which episodes from before a fork are listed: they keep the
    settings they were made with.
    """
    name = f"{ancestor.origin.get('run', 'another run')}, by way of {fork.name}"
    for number, run in enumerate(data.runs):
        if run.inherited is ancestor.origin:
            return number
    data.runs.append(
        replace(fork, name=name, settings=ancestor.settings, inherited=ancestor.origin)
    )
    return len(data.runs) - 1


def _with_changes_undone(
    settings: Mapping[str, Any], changed: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Settings as they were before a fork; a changed one is named by its path, as in
    arms.capex.tau.
    """
    before: dict[str, Any] = json.loads(json.dumps(settings))
    for change in changed:
        *path, last = str(change.get("name", "")).split(".")
        inner = before
        for key in path:
            inner = inner.setdefault(key, {}) if isinstance(inner, dict) else {}
        if isinstance(inner, dict):
            inner[last] = change.get("before")
    return before


def _leave_out_copies(data: RunData) -> None:
    """Count an episode that a fork began with once, where the run that made it is there too; and
    say where forks' episodes come from.
    """
    made = {_mark(e) for e in data.episodes if not data.runs[e.run].inherited}
    for number, run in enumerate(data.runs):
        held = [e for e in data.episodes if e.run == number] if run.inherited else []
        if not held or run.inherited is None:
            continue
        copies = {id(e) for e in held if _mark(e) in made}
        data.episodes = [e for e in data.episodes if id(e) not in copies]
        if len(copies) == len(held):
            data.invalid = [a for a in data.invalid if a.run != number]
        made |= {_mark(e) for e in held}
        count = f"{len(held)} {'episode' if len(held) == 1 else 'episodes'}"
        changed = ", ".join(str(c.get("name")) for c in run.inherited.get("changed") or ())
        fork = next(r.name for r in data.runs if r.path == run.path and r.inherited is None)
        parent = run.inherited.get("run")
        where = (
            f"counted with {parent}"
            if len(copies) == len(held)
            else "shown apart, under the settings they were made with"
        )
        data.origins.append(
            f"Run {fork} was forked from {parent} with {count} made before {changed} changed; they"
            f" are {where}."
        )


def _mark(episode: EpisodeRow) -> tuple[Any, ...]:
    """What only copies of an episode share."""
    return (
        episode.chain,
        episode.start,
        episode.seed,
        episode.unix_time,
        episode.steps,
        episode.requests,
    )


def _unfinished(
    info: RunInfo,
    held: Mapping[tuple[str, str], Mapping[str, set[int]]],
    asked: Mapping[tuple[str, str], set[int]],
    successes: Mapping[tuple[str, str, str], int],
) -> list[str]:
    """Which starts are missing: of those the run was asked for where it says so, and else of those
    that another arm has tried.
    """
    plan = info.manifest.get("plan") or {}
    settings = info.settings or {}
    planned = set(plan.get("starts") or ())
    wanted = plan.get("until_successes")
    lacking: list[str] = []
    listed = [tuple(str(t).split(":", 1)) for t in settings.get("tasks", ())] if planned else []
    tasks = list(dict.fromkeys([*(t for t in listed if len(t) == 2), *held]))
    for world, task in tasks:
        by_arm = held.get((world, task), {})
        arms = list(dict.fromkeys([*(settings.get("arms", {}) if planned else ()), *by_arm]))
        expected = planned or set().union(asked.get((world, task), set()), *by_arm.values())
        for arm in arms:
            if wanted is not None and successes.get((world, task, arm), 0) >= wanted:
                continue
            missing = expected - by_arm.get(arm, set())
            if missing:
                lacking.append(f"{arm} at {task}: {len(missing)} of {len(expected)} starts")
    if not lacking:
        return []
    shown = "; ".join(lacking[:6]) + (f"; and {len(lacking) - 6} more" if len(lacking) > 6 else "")
    return [f"Run {info.name} is not finished. Missing: {shown}."]


def _episode(found: LoadedEpisode, run: int) -> EpisodeRow:
    record, extra = found.record, found.record.extra
    ledger = extra.get("ledger") or {}
    taken = of_episode(found)
    weights = extra.get("weights")
    planned = [t for t in record.turns if t.waypoints]
    return EpisodeRow(
        run=run,
        path=found.path,
        chain=found.chain,
        world=record.world,
        task=record.task,
        arm=record.arm,
        model=record.model,
        stand_in=record.stand_in,
        start=record.start,
        seed=record.seed,
        position=found.position,
        success=record.success,
        end=record.end,
        steps=record.steps,
        decisions=len(record.turns),
        spent=sum(bool(t.spent) for t in record.turns),
        requests=record.requests,
        wire_attempts=ledger.get("attempts"),
        cost_usd=record.cost_usd,
        usd=_dollars(taken),
        tokens=taken.tokens,
        seconds=taken.seconds,
        unix_time=found.timing.get("unix_time"),
        instruction=record.instruction,
        labels_before=int(extra.get("labels_before", 0)),
        weights=None if weights is None else tuple(float(w) for w in weights),
        plans=len(planned),
        truncated=sum(t.committed < len(t.waypoints) for t in planned),
        calls=tuple(t.calls for t in record.turns),
        waypoints=_waypoints(planned),
        student=student if isinstance(student := extra.get("student"), Mapping) else None,
    )


def _waypoints(planned: Sequence[Turn]) -> Waypoints:
    rows = [
        (i, k, w) for i, turn in enumerate(planned) for k, w in enumerate(turn.waypoints, start=1)
    ]
    return Waypoints(
        plan=np.array([i for i, _, _ in rows], dtype=np.int32),
        place=np.array([k for _, k, _ in rows], dtype=np.int32),
        stated=np.array([w.waypoint.confidence for _, _, w in rows], dtype=np.float64),
        calibrated=np.array([w.calibrated for _, _, w in rows], dtype=np.float64),
        label=np.array(
            [NO_LABEL if w.label is None else w.label for _, _, w in rows], dtype=np.int8
        ),
    )


def _invalid(
    start: int,
    error: str,
    raw: Mapping[str, Any],
    taken: Taken,
    chain: LoadedChain,
    info: RunInfo,
    run: int,
) -> CostRow:
    return CostRow(
        run=run,
        chain=chain.name,
        world=chain.world,
        task=chain.task,
        arm=chain.arm,
        model=str(
            raw.get("model")
            or (
                chain.episodes[0].record.model
                if chain.episodes
                else (info.settings or {}).get("model", "")
            )
        ),
        stand_in=bool(raw.get("stand_in", info.manifest.get("stand_in"))),
        start=start,
        error=error,
        requests=taken.requests,
        wire_attempts=taken.attempts,
        usd=_dollars(taken),
        tokens=taken.tokens,
        seconds=taken.seconds,
    )


def _dollars(taken: Taken) -> Dollars | None:
    return None if taken.usd is None else (float(taken.usd[0]), float(taken.usd[1]))


def families(episodes: Sequence[EpisodeRow]) -> dict[tuple[str, str], str]:
    """The family of each (world, task); a world that cannot be asked here has none."""
    found: dict[tuple[str, str], str] = {}
    for world in dict.fromkeys(e.world for e in episodes):
        try:
            known = worlds.tasks(world)
        except (CapexError, ImportError):
            known = {}
        for task in dict.fromkeys(e.task for e in episodes if e.world == world):
            found[world, task] = known[task].family if task in known else "No family"
    return found
