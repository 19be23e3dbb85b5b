"""Which attempts become demonstrations: what the runs hold, the filters, pairs over the same
starts, and why the rest was left out.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from capex.dataset.certify import read_certificate
from capex.dataset.frames import check_episode
from capex.errors import CapexError, DamagedFile, UnknownName
from capex.method.record import EpisodeRecord
from capex.run import load_chain
from capex.run.store import Chain, find_run

Key = tuple[str, str, int, int]  # world, task, start, seed
NO_CERTIFICATE = "not certified yet; run capex certify"


@dataclass(frozen=True)
class Candidate:
    """A whole episode of a run, as far as choosing needs it: fields of its record, and more. Of a
    damaged one only the chain and the start are known.
    """

    episode: Path
    world: str
    task: str
    arm: str
    start: int
    seed: int = 0
    model: str = ""
    stand_in: bool = False
    success: bool | None = None
    end: str = ""
    steps: int = 0
    requests: int = 0
    cost_usd: float | None = None
    instruction: str = ""
    decisions: int = 0
    confidence: float | None = None  # mean calibrated one of the waypoints that got a label
    certified: bool = False
    uncertified: str = ""  # why there is no certificate
    damage: str = ""  # why it cannot be read

    @property
    def key(self) -> Key:
        """What pairs with an attempt of another run."""
        return (self.world, self.task, self.start, self.seed)

    @property
    def place(self) -> str:
        """Where the episode lies, from the folder that holds the run:
        NAME/chains/CHAIN/episodes/0007.
        """
        return "/".join(self.episode.resolve().parts[-5:])


@dataclass(frozen=True)
class LeftOut:
    """An attempt, or a start, that is not in a dataset, and why."""

    dataset: str
    world: str
    task: str
    arm: str
    start: int
    reason: str


@dataclass(frozen=True)
class Filters:
    """What a demonstration must be. None disables a filter."""

    uncertified: bool = False
    """Take successes without a certificate too."""
    tasks: tuple[str, ...] = ()
    """Only these tasks."""
    arms: tuple[str, ...] = ()
    """Only these arms."""
    min_steps: int | None = None
    """At least so many control steps."""
    max_steps: int | None = None
    """At most so many control steps."""
    max_cost_usd: float | None = None
    """At most so many dollars of model calls; an unknown cost is left out."""
    min_confidence: float | None = None
    """At least this mean calibrated confidence over the executed waypoints; attempts without
    confidences are left out."""
    max: int | None = None
    """At most so many demonstrations of each task, the first by start."""

    def __post_init__(self) -> None:
        for name, value in (("--max", self.max), ("--max-steps", self.max_steps)):
            if value is not None and value < 1:
                raise CapexError(f"{name} is {value}; it must be at least 1")


@dataclass
class Selection:
    """The attempts of one dataset in order, and what was left out of it."""

    name: str
    attempts: list[Candidate]
    left_out: list[LeftOut] = field(default_factory=list)

    def leave_out(self, attempt: Candidate, reason: str) -> None:
        """Note an attempt that is not taken."""
        self.left_out.append(
            LeftOut(self.name, attempt.world, attempt.task, attempt.arm, attempt.start, reason)
        )


def find_attempts(place: Path) -> list[Candidate]:
    """Every whole episode of a run, or of one chain of it, by chain and start; damaged ones with
    what is wrong with them.
    """
    attempts: list[Candidate] = []
    for chain in [Chain(place)] if (place / "episodes").is_dir() else find_run(place).chains():
        loaded = load_chain(chain)
        found = [_attempt(e.path, e.record) for e in loaded.episodes]
        found += [
            Candidate(d.path, loaded.world, loaded.task, loaded.arm, d.start, damage=d.reason)
            for d in loaded.damaged
            if d.start is not None
        ]
        attempts += sorted(found, key=lambda a: a.start)
    if not attempts:
        raise CapexError(f"{place} holds no whole episode; collect some first")
    return attempts


def select(name: str, attempts: Iterable[Candidate], filters: Filters) -> Selection:
    """The successes that pass the filters."""
    chosen = Selection(name, [])
    counts: Counter[tuple[str, str]] = Counter()
    for attempt in _wanted(attempts, filters):
        reason = (
            attempt.damage or _failed(attempt) or _refusal(attempt, filters) or _unreadable(attempt)
        )
        if (
            not reason
            and filters.max is not None
            and counts[attempt.world, attempt.task] >= filters.max
        ):
            reason = f"beyond --max {filters.max}"
        if reason:
            chosen.leave_out(attempt, reason)
        else:
            counts[attempt.world, attempt.task] += 1
            chosen.attempts.append(attempt)
    return chosen


def select_failures(name: str, attempts: Iterable[Candidate], filters: Filters) -> Selection:
    """The failed attempts of the same tasks and arms; certificates and filters speak of successes
    only.
    """
    chosen = Selection(name, [])
    for attempt in _wanted(attempts, filters):
        if attempt.success is False:
            reason = "the robot never moved" if attempt.steps == 0 else _unreadable(attempt)
            if reason:
                chosen.leave_out(attempt, reason)
            else:
                chosen.attempts.append(attempt)
    return chosen


def pair(first: Selection, second: Selection, limit: int | None) -> tuple[Selection, Selection]:
    """Keep the starts that both have, in the same order; everything else is left out with the
    reason on the other side.
    """
    sides = (_by_key(first), _by_key(second))
    reasons = [
        {(r.world, r.task, r.start): r.reason for r in side.left_out} for side in (second, first)
    ]
    counts: Counter[tuple[str, str]] = Counter()
    paired = (
        Selection(first.name, [], list(first.left_out)),
        Selection(second.name, [], list(second.left_out)),
    )
    for key in sorted(set(sides[0]) | set(sides[1])):
        both = key in sides[0] and key in sides[1]
        full = both and limit is not None and counts[key[:2]] >= limit
        counts[key[:2]] += both and not full
        for side, chosen, other, why in zip(sides, paired, (second, first), reasons, strict=True):
            if key not in side:
                continue
            if both and not full:
                chosen.attempts.append(side[key])
            else:
                missing = f"no partner in {other.name}: {why.get(key[:3], 'never attempted')}"
                chosen.leave_out(side[key], f"beyond --max {limit}" if full else missing)
    return paired


def left_out_csv(rows: Sequence[LeftOut]) -> str:
    """The table of what was left out, as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("dataset", "world", "task", "arm", "start", "reason"))
    table.writerows((r.dataset, r.world, r.task, r.arm, r.start, r.reason) for r in rows)
    return text.getvalue()


def summary(rows: Sequence[LeftOut]) -> list[tuple[str, str, int]]:
    """How many were left out, by dataset and reason, the most frequent first."""
    counts = Counter((r.dataset, r.reason) for r in rows)
    return [(dataset, reason, count) for (dataset, reason), count in counts.most_common()]


def _unreadable(attempt: Candidate) -> str:
    """Whether an attempt that is to be taken can be: its arrays are read, unless a certificate says
    that they are what was executed.
    """
    if attempt.certified:
        return ""
    try:
        check_episode(attempt.episode)
    except DamagedFile as damage:
        return f"{damage.path.name} is damaged: {damage.reason}"
    return ""


def _attempt(episode: Path, record: EpisodeRecord) -> Candidate:
    certificate = read_certificate(episode) if record.success else None
    if certificate is None:
        why = NO_CERTIFICATE
        if (episode / "certificate.json").is_file():
            why = "changed since it was certified; run capex certify"
    else:
        why = certificate.reason
    shared = {f.name for f in fields(Candidate)} & {f.name for f in fields(EpisodeRecord)}
    return Candidate(
        episode,
        **{name: getattr(record, name) for name in shared},
        decisions=len(record.turns),
        confidence=_confidence(record),
        certified=certificate is not None and certificate.certified,
        uncertified=why,
    )


def _confidence(record: EpisodeRecord) -> float | None:
    rows = [row for turn in record.turns for row in turn.waypoints if row.label is not None]
    values = [
        row.calibrated if row.calibrated is not None else row.waypoint.confidence for row in rows
    ]
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _wanted(attempts: Iterable[Candidate], filters: Filters) -> list[Candidate]:
    attempts = list(attempts)
    for kind, asked, held in (
        ("task", filters.tasks, {a.task for a in attempts}),
        ("arm", filters.arms, {a.arm for a in attempts}),
    ):
        for name in asked:
            if name not in held:
                raise UnknownName(kind, name, held, where=" among the attempts")
    return [
        a
        for a in attempts
        if (not filters.tasks or a.task in filters.tasks)
        and (not filters.arms or a.arm in filters.arms)
    ]


def _failed(attempt: Candidate) -> str:
    if attempt.success is None:
        return "success not judged yet"
    return "" if attempt.success else f"failed ({attempt.end})"


def _refusal(attempt: Candidate, filters: Filters) -> str:
    """Why a success is not taken, or nothing."""
    if not attempt.certified and not filters.uncertified:
        return attempt.uncertified
    if filters.min_steps is not None and attempt.steps < filters.min_steps:
        return f"shorter than {filters.min_steps} steps"
    if filters.max_steps is not None and attempt.steps > filters.max_steps:
        return f"longer than {filters.max_steps} steps"
    if filters.max_cost_usd is not None and (
        attempt.cost_usd is None or attempt.cost_usd > filters.max_cost_usd
    ):
        return (
            "cost unknown"
            if attempt.cost_usd is None
            else f"cost more than ${filters.max_cost_usd:g}"
        )
    if filters.min_confidence is not None and (
        attempt.confidence is None or attempt.confidence < filters.min_confidence
    ):
        return (
            "no confidence was stated"
            if attempt.confidence is None
            else f"mean confidence below {filters.min_confidence:g}"
        )
    return ""


def _by_key(selection: Selection) -> dict[Key, Candidate]:
    found: dict[Key, list[Candidate]] = defaultdict(list)
    for attempt in selection.attempts:
        found[attempt.key].append(attempt)
    for (world, task, start, _), several in found.items():
        if len(several) > 1:
            arms = ", ".join(sorted({a.arm for a in several}))
            raise CapexError(
                f"{selection.name} has {len(several)} demonstrations of {world}:{task} start"
                f" {start} (arms: {arms}); pairs need one: choose with --arms, or give a chain's"
                " folder instead of the run's"
            )
    return {key: several[0] for key, several in found.items()}
