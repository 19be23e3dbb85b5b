"""Which episodes may be counted together: a source is one model under one arm's settings, from one
run or from several that agree.

Runs of equal settings are pooled as long as no start is in both, and the page says so. Everything
else stays apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capex.method.presets import PRESETS
from capex.report.rows import CostRow, RunData, RunInfo
from capex.run.manifest import kind_of
from capex.run.summary import Summary

# Then others by name, then the privileged sources.
ORDER = ("base", *(name for name in PRESETS if name != "base"))
LAST = ("expert", "human")
COLOURS = {"base": 0, "capex": 1, "capex-fresh": 2, "capex-stated": 3, "expert": 4, "human": 4}
# Of a run's settings: not what an arm's episodes depend on.
APART = ("command", "tasks", "arms", "arm", "worlds", "starts")
Member = tuple[int, str, str]  # run, arm, model
STAND_IN = "stand-in"
FILE_TASK = re.compile(r"world_files\..*\.tasks\.[^.]+\.")


@dataclass(frozen=True, eq=False)
class Source:
    """One row of every table and one colour of every figure."""

    number: int
    colour: int  # of the palette
    label: str
    arm: str
    model: str
    stand_in: bool
    memory: str  # chain, fresh or none
    tau: float | None
    round_size: int
    runs: tuple[str, ...]
    episodes: tuple[Summary, ...]
    invalid: tuple[CostRow, ...]
    settings: Mapping[str, Any]
    lost: tuple[CostRow, ...] = ()  # what attempts took that left no record
    task_tau: Mapping[str, float] = field(default_factory=dict)  # by WORLD:TASK, in place of tau

    def tau_of(self, episode: Summary) -> float | None:
        """The commit threshold of an episode; None where there is none."""
        own = self.task_tau.get(f"{episode.world}:{episode.task}", self.tau)
        return None if self.tau is None else own

    @property
    def attempts(self) -> list[Summary | CostRow]:
        """Everything that was tried and paid for, each request once."""
        return [*self.recorded, *self.lost]

    @property
    def recorded(self) -> list[Summary | CostRow]:
        """What left a record."""
        return [*self.episodes, *self.invalid]

    @property
    def student(self) -> bool:
        """Whether a trained policy acted."""
        return any(e.student is not None for e in self.episodes)

    @property
    def resumed(self) -> bool:
        """Whether its episodes go on from saved states."""
        return any(e.resumed is not None for e in self.episodes)

    @property
    def scorable(self) -> list[Summary]:
        """Episodes with a verdict: the denominators."""
        return [e for e in self.episodes if e.success is not None]


@dataclass(frozen=True)
class _Part:
    """The episodes of one arm and model in one run."""

    member: Member
    settings: Mapping[str, Any]
    known: bool
    starts: frozenset[Any]


def group(data: RunData) -> tuple[list[Source], list[str]]:
    """The sources in their order, and a sentence for everything that was pooled or kept apart."""
    parts: dict[tuple[str, str], list[list[_Part]]] = {}
    for part in _parts(data):
        groups = parts.setdefault(part.member[1:], [])
        for together in groups:
            if part.known and all(_agree(part, other) for other in together):
                together.append(part)
                break
        else:
            groups.append([part])
    notes: list[str] = []
    sources: list[Source] = []
    for (arm, model), groups in sorted(parts.items(), key=lambda item: _place(*item[0])):
        for together in groups:
            sources.append(
                _source(data, len(sources), arm, model, together, alone=len(groups) == 1)
            )
        notes += _pooling(data, sources[-len(groups) :], groups)
    return _coloured(_distinct(sources)), notes


def _distinct(sources: Sequence[Source]) -> list[Source]:
    """Labels name sources in tables, so no two may be alike, though long names were shortened."""
    labels = [s.label for s in sources]
    return [
        s if labels.count(s.label) == 1 else replace(s, label=f"{s.label} #{s.number}")
        for s in sources
    ]


def _coloured(sources: Sequence[Source]) -> list[Source]:
    """An arm keeps its own colour where it is free; every other source gets one that no known arm
    here has.
    """
    wanted = {s.number: COLOURS.get(s.arm) for s in sources}
    taken: dict[int, int] = {}
    for number, colour in wanted.items():
        if colour is not None and colour not in taken.values():
            taken[number] = colour
    spare = (c for c in range(len(sources) + len(COLOURS) + 1) if c not in taken.values())
    return [
        replace(s, colour=taken[s.number] if s.number in taken else next(spare)) for s in sources
    ]


def main_source(sources: Sequence[Source]) -> Source | None:
    """What the report is about: the first arm with memory, else the most successful one; a
    privileged source only where it is alone.
    """
    scored = [s for s in sources if s.scorable]
    asked = [s for s in scored if s.arm not in LAST] or scored
    most = max(asked, key=lambda s: sum(bool(e.success) for e in s.scorable), default=None)
    return next((s for s in asked if s.memory == "chain"), most)


def _parts(data: RunData) -> list[_Part]:
    members: dict[Member, set[Any]] = {}
    for episode in data.episodes:
        members.setdefault((episode.run, episode.arm, episode.model), set()).add(episode.key)
    for attempt in (*data.invalid, *data.lost):
        members.setdefault((attempt.run, attempt.arm, attempt.model), set())
    return [
        _Part(
            m,
            identity(data.runs[m[0]], m[1]),
            data.runs[m[0]].settings is not None,
            frozenset(starts),
        )
        for m, starts in members.items()
    ]


def identity(run: RunInfo, arm: str) -> dict[str, Any]:
    """What the episodes of an arm in a run depend on, flat: settings, the arm's own, and the
    physics they ran on.
    """
    settings = {k: v for k, v in (run.settings or {}).items() if k not in APART}
    kind = kind_of(run.manifest)
    more = {} if kind is None else kind.identity(run.manifest)
    physics = {"mujoco": run.manifest.versions.get("mujoco")}
    own = (run.settings or {}).get("arms", {}).get(arm, {})
    return _flat({**settings, **more, "arm": own, **physics})


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        found |= (
            _flat(item, f"{prefix}{key}.")
            if isinstance(item, Mapping)
            else {f"{prefix}{key}": item}
        )
    return found


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Names of the settings that differ. Of a world's files a run keeps its own tasks alone, so
    one that has no such task does not differ in them.
    """
    theirs, others = ({m[0] for k in side if (m := FILE_TASK.match(k))} for side in (a, b))
    return sorted(
        k
        for k in {*a, *b}
        if not k.startswith(tuple(theirs ^ others))
        if json.dumps(a.get(k), default=str) != json.dumps(b.get(k), default=str)
    )


def _agree(a: _Part, b: _Part) -> bool:
    return b.known and not differences(a.settings, b.settings) and not a.starts & b.starts


def _place(arm: str, model: str) -> tuple[int, str, str]:
    if arm in ORDER:
        return ORDER.index(arm), arm, model
    return (99 if arm in LAST else 50), arm, model


def _source(
    data: RunData, number: int, arm: str, model: str, together: Sequence[_Part], *, alone: bool
) -> Source:
    members = {p.member for p in together}
    runs = tuple(data.runs[p.member[0]].name for p in together)
    episodes = tuple(e for e in data.episodes if (e.run, e.arm, e.model) in members)
    invalid, lost = (
        tuple(a for a in rows if (a.run, a.arm, a.model) in members)
        for rows in (data.invalid, data.lost)
    )
    stand_in = any(e.stand_in for e in episodes) or any(a.stand_in for a in invalid)
    label = plain(arm if arm == model else f"{arm} · {model}")
    kind = kind_of(data.runs[together[0].member[0]].manifest)
    label += "" if kind is None else f", {kind.label}"
    label += f" ({STAND_IN})" if stand_in else ""
    label += "" if alone else f" [{'+'.join(runs)}]"
    settings = data.runs[together[0].member[0]].recorded
    method = settings.arms.get(arm, PRESETS.get(arm))
    return Source(
        number=number,
        colour=0,
        label=label,
        arm=arm,
        model=model,
        stand_in=stand_in,
        memory="none" if method is None else method.memory,
        tau=method.tau if method is not None and method.confidence else None,
        round_size=settings.round_size,
        runs=runs,
        episodes=episodes,
        invalid=invalid,
        settings=together[0].settings,
        lost=lost,
        task_tau={} if method is None else method.task_tau,
    )


def _pooling(
    data: RunData, sources: Sequence[Source], groups: Sequence[Sequence[_Part]]
) -> list[str]:
    notes = []
    for source, together in zip(sources, groups, strict=True):
        if len(together) > 1:
            runs = ", ".join(source.runs)
            notes.append(
                f"{source.label} is pooled from the runs {runs}: their settings are equal and no"
                " start is in two."
            )
    first = groups[0][0]
    for source, together in zip(sources[1:], groups[1:], strict=True):
        changed = differences(first.settings, together[0].settings)
        if not (first.known and together[0].known):
            why = "the settings of one are not known"
        elif changed:
            why = (
                f"they differ in {', '.join(changed[:8])}{' and more' if len(changed) > 8 else ''}"
            )
        else:
            why = "both hold some of the same starts"
        notes.append(f"{sources[0].label} and {source.label} are not pooled: {why}.")
    return notes


def plain(text: str, limit: int = 60) -> str:
    """A name for labels: printable, on one line, not too long."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
