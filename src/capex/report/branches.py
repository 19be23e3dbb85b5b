"""Branches: which run made the attempts that a branch began with, and under which settings. Each
attempt is counted once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capex.report.rows import CostRow, RunData, RunInfo
from capex.run.manifest import Origin, SettingChange, recorded
from capex.run.summary import Summary


@dataclass(frozen=True)
class Ancestor:
    """A run that a branch, or the run it was branched from, began with, and its settings."""

    origin: Origin
    settings: Mapping[str, Any] | None  # None where what the branch tells of them is garbled


def lineage(info: RunInfo) -> list[Ancestor]:
    """The runs that a run descends from by branches, the nearest first."""
    found: list[Ancestor] = []
    settings = info.settings or {}
    for origin in info.manifest.origins:
        settings = _with_changes_undone(settings, origin.changed)
        try:
            recorded(settings)
        except ValueError:
            found.append(Ancestor(origin, None))
        else:
            found.append(Ancestor(origin, settings))
    return found


def number_of(ancestor: Ancestor, branch: RunInfo, data: RunData) -> int:
    """The number of the run under which episodes from before a branch are listed: they keep the
    settings they were made with.
    """
    name = f"{ancestor.origin.run}, by way of {branch.name}"
    for number, run in enumerate(data.runs):
        if run.inherited is ancestor.origin:
            return number
    data.runs.append(
        replace(branch, name=name, settings=ancestor.settings, inherited=ancestor.origin)
    )
    return len(data.runs) - 1


def _with_changes_undone(
    settings: Mapping[str, Any], changed: Sequence[SettingChange]
) -> dict[str, Any]:
    """Settings as they were before a branch; a changed one is named by its path, as in
    arms.capex.tau.
    """
    before: dict[str, Any] = json.loads(json.dumps(settings))
    for change in changed:
        *path, last = change.name.split(".")
        inner = before
        for key in path:
            inner = inner.setdefault(key, {}) if isinstance(inner, dict) else {}
        if isinstance(inner, dict):
            inner[last] = change.before
    return before


def leave_out_copies(data: RunData) -> None:
    """Count an attempt that a branch began with once, where the run that made it is there too; and
    say where branches' episodes come from.
    """
    everything: list[Summary | CostRow] = [*data.episodes, *data.invalid]
    made = {_mark(row) for row in everything if data.runs[row.run].inherited is None}
    for number, run in enumerate(data.runs):
        if run.inherited is None:
            continue
        rows = [row for row in everything if row.run == number]
        copies = {id(row) for row in rows if _mark(row) in made}
        data.episodes = [e for e in data.episodes if id(e) not in copies]
        data.invalid = [a for a in data.invalid if id(a) not in copies]
        made |= {_mark(row) for row in rows}
        if held := [row for row in rows if isinstance(row, Summary)]:
            branch = next(r.name for r in data.runs if r.path == run.path and r.inherited is None)
            data.origins.append(
                _origin_sentence(
                    branch, run.inherited, len(held), sum(id(e) in copies for e in held)
                )
            )


def _origin_sentence(branch: str, origin: Origin, held: int, copies: int) -> str:
    count = f"{held} {'episode' if held == 1 else 'episodes'}"
    changed = (
        f" made before {', '.join(c.name for c in origin.changed)} changed"
        if origin.changed
        else ""
    )
    apart = "shown apart, under the settings they were made with"
    if copies in (0, held):
        where = f"they are {f'counted with {origin.run}' if copies else apart}"
    else:
        where = f"{copies} of them are counted with {origin.run}, the others are {apart}"
    return f"Run {branch} was branched from {origin.run} with {count}{changed}; {where}."


def _mark(row: Summary | CostRow) -> tuple[Any, ...]:
    """What only copies of an attempt share."""
    if isinstance(row, CostRow):
        return row.chain, row.start, row.unix_time, row.error
    return row.chain, row.start, row.seed, row.unix_time, row.steps, row.requests
