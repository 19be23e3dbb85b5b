"""Forks: which run made the episodes that a fork began with, and under which settings. Each episode
is counted once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from capex.report.rows import EpisodeRow, RunData, RunInfo
from capex.run import InvalidAttempt, LoadedChain


@dataclass(frozen=True)
class Ancestor:
    """A run that a fork, or the run it was forked from, began with: what the manifest says of it,
    and its settings.
    """

    origin: Mapping[str, Any]
    settings: Mapping[str, Any]


def lineage(info: RunInfo) -> list[Ancestor]:
    """The runs that a run descends from by forks, the nearest first."""
    found: list[Ancestor] = []
    origin, settings = info.manifest.get("forked_from"), info.settings or {}
    while isinstance(origin, Mapping) and isinstance(origin.get("episodes"), Mapping):
        settings = _with_changes_undone(settings, origin.get("changed") or ())
        found.append(Ancestor(origin, settings))
        origin = origin.get("forked_from")
    return found


def split(chain: LoadedChain, origin: Mapping[str, Any]) -> tuple[LoadedChain, LoadedChain]:
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


def number_of(ancestor: Ancestor, fork: RunInfo, data: RunData) -> int:
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


def leave_out_copies(data: RunData) -> None:
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
