"""Which attempts become demonstrations: what the runs hold, the filters, pairs over the same
starts, and why the rest was left out.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from capex.dataset.certify import judged, read_certificate
from capex.dataset.duplicates import Motions
from capex.dataset.frames import check_episode
from capex.errors import CapexError, DamagedFile, ErrorCode, UnknownName, as_cell
from capex.registry import EXPORT_FILTERS, load
from capex.run import load_chain
from capex.run.store import Chain, find_run
from capex.run.summary import StartKey, Summary, summarize

NO_CERTIFICATE = "not certified yet; run capex certify"


@dataclass(frozen=True)
class ExportFilter:
    """A filter of an extension, by name in `registry.EXPORT_FILTERS`."""

    refusal: Callable[[Summary, bool], str]  # (episode, whether its flag is given) -> why not
    help: str = ""  # of its flag; without help it has no flag


@dataclass(frozen=True)
class Candidate:
    """A whole episode of a run that may become a demonstration."""

    summary: Summary
    certified: bool
    uncertified: str  # why there is no certificate

    @property
    def judge(self) -> str:
        """Who judged it, where a person does; empty where the world judges."""
        verdict = self.summary.verdict
        return verdict.by if verdict is not None else ""

    @property
    def from_run(self) -> str:
        """Where the episode lies, from the folder that holds the run:
        NAME/chains/CHAIN/episodes/0007.
        """
        return "/".join(_within(self.summary.path))


@dataclass(frozen=True)
class LeftOut:
    """An attempt, or a start, that is not in a dataset, and why."""

    dataset: str
    world: str
    task: str
    arm: str
    start: int
    reason: str
    run: str = ""  # the name of its run


@dataclass(frozen=True)
class Filters:
    """What a demonstration must be. None disables a filter."""

    uncertified: bool = False
    """Take successes without a certificate too."""
    tasks: tuple[str, ...] = ()
    """Only these tasks (default: all)."""
    arms: tuple[str, ...] = ()
    """Only these arms, of all runs together (default: all)."""
    min_steps: int | None = None
    """At least so many control steps (default: any)."""
    max_steps: int | None = None
    """At most so many control steps (default: any)."""
    max_cost_usd: float | None = None
    """At most so many dollars of model calls; an unknown cost is left out (default: any)."""
    min_confidence: float | None = None
    """At least this mean calibrated confidence, 0 to 1, over the waypoints with a label; attempts
    without confidences are left out (default: any)."""
    max: int | None = None
    """At most so many demonstrations of each task, the first by start (default: all)."""
    extensions: tuple[str, ...] = ()
    """The flags of extensions that are given, by name in `registry.EXPORT_FILTERS`."""

    def __post_init__(self) -> None:
        for name in self.extensions:
            if name not in EXPORT_FILTERS:
                raise UnknownName("filter", name, EXPORT_FILTERS)
        for name, value in (("--max", self.max), ("--max-steps", self.max_steps)):
            if value is not None and value < 1:
                raise CapexError(
                    f"{name} is {value}; it must be at least 1", code=ErrorCode.BAD_SETTING
                )
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise CapexError(
                f"--min-confidence is {self.min_confidence}; it must lie in 0 to 1",
                code=ErrorCode.BAD_SETTING,
            )


@dataclass
class Selection:
    """The attempts of one dataset in order, and what was left out of it."""

    name: str
    attempts: list[Candidate]
    left_out: list[LeftOut] = field(default_factory=list)

    def leave_out(self, attempt: Candidate, reason: str) -> None:
        """Note an attempt that is not taken."""
        e = attempt.summary
        self.left_out.append(
            LeftOut(self.name, e.world, e.task, e.arm, e.start, reason, _run_name(e.path))
        )


def find_attempts(folder: Path) -> list[Candidate | LeftOut]:
    """Every whole episode of a run, or of one chain of it, by chain and start; of damaged ones what
    is wrong with them.
    """
    attempts: list[Candidate | LeftOut] = []
    for chain in [Chain(folder)] if (folder / "episodes").is_dir() else find_run(folder).chains():
        loaded = load_chain(chain)
        by_start: dict[int, Candidate | LeftOut] = {
            # a demonstration begins at its start, a resumed one's too
            e.index: _candidate(replace(summarize(e), steps=e.record.steps))
            for e in loaded.episodes
        }
        by_start |= {
            d.start: LeftOut(
                "", loaded.world, loaded.task, loaded.arm, d.start, d.reason, _run_name(d.path)
            )
            for d in loaded.damaged
            if d.start is not None
        }
        attempts += [by_start[start] for start in sorted(by_start)]
    if not attempts:
        raise CapexError(
            f"{folder} holds no whole episode; collect some first", code=ErrorCode.NO_DATA
        )
    return attempts


def select(name: str, attempts: Iterable[Candidate | LeftOut], filters: Filters) -> Selection:
    """The successes that pass the filters, without exact duplicates."""
    chosen, motions = Selection(name, []), Motions()
    counts: Counter[tuple[str, str]] = Counter()
    for attempt in _asked_for(attempts, filters):
        if isinstance(attempt, LeftOut):
            chosen.left_out.append(replace(attempt, dataset=name))
            continue
        task = (attempt.summary.world, attempt.summary.task)
        reason = _failed(attempt) or _refusal(attempt, filters) or _unreadable(attempt)
        if not reason and filters.max is not None and counts[task] >= filters.max:
            reason = f"beyond --max {filters.max}"
        reason = reason or _repeated(attempt, motions)
        if reason:
            chosen.leave_out(attempt, reason)
        else:
            counts[task] += 1
            chosen.attempts.append(attempt)
    return chosen


def select_failures(
    name: str, attempts: Iterable[Candidate | LeftOut], filters: Filters
) -> Selection:
    """The failed attempts of the same tasks and methods, without exact duplicates; certificates
    and filters speak of successes only.
    """
    chosen, motions = Selection(name, []), Motions()
    for attempt in _asked_for(attempts, filters):
        if isinstance(attempt, Candidate) and attempt.summary.success is False:
            still = "the robot never moved" if attempt.summary.steps == 0 else ""
            reason = _refused_by_extension(attempt.summary, filters) or still
            reason = reason or _unreadable(attempt)
            reason = reason or _repeated(attempt, motions)
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
    table.writerow(("dataset", "world", "task", "arm", "start", "reason", "run"))
    facts = ((r.dataset, r.world, r.task, r.arm, r.start, r.reason, r.run) for r in rows)
    table.writerows(map(as_cell, row) for row in facts)
    return text.getvalue()


def summary(rows: Sequence[LeftOut]) -> list[tuple[str, str, int]]:
    """How many were left out, by dataset and reason, the most frequent first."""
    counts = Counter((r.dataset, r.reason) for r in rows)
    return [(dataset, reason, count) for (dataset, reason), count in counts.most_common()]


def _repeated(attempt: Candidate, motions: Motions) -> str:
    """Whether an attempt repeats one that is taken; otherwise it is noted as taken."""
    if twin := motions.twin(attempt.summary):
        return f"duplicate, the same motion to the bit as in {'/'.join(_within(twin.path)[:3])}"
    motions.add(attempt.summary)
    return ""


def _within(episode: Path) -> tuple[str, ...]:
    """NAME, chains, CHAIN, episodes, 0007."""
    return episode.resolve().parts[-5:]


def _run_name(episode: Path) -> str:
    return _within(episode)[0]


def _unreadable(attempt: Candidate) -> str:
    """Whether an attempt that is to be taken can be: its arrays are read, unless a certificate says
    that they are what was executed.
    """
    if attempt.certified:
        return ""
    try:
        check_episode(attempt.summary.path)
    except DamagedFile as damage:
        return f"{damage.path.name} is damaged: {damage.reason}"
    return ""


def _candidate(summary: Summary) -> Candidate:
    if summary.success and summary.verdict is not None:
        return Candidate(summary, certified=False, uncertified=judged(summary.verdict))
    certificate = read_certificate(summary.path) if summary.success else None
    if certificate is not None:
        return Candidate(summary, certificate.certified, certificate.reason)
    changed = (summary.path / "certificate.json").is_file()
    why = "changed since it was certified; run capex certify" if changed else NO_CERTIFICATE
    return Candidate(summary, certified=False, uncertified=why)


def require_known_names(attempts: Iterable[Candidate | LeftOut], filters: Filters) -> None:
    """Refuse filters that name a task or an arm that no attempt, of all runs together, has."""
    named = [a.summary if isinstance(a, Candidate) else a for a in attempts]
    for kind, asked, known in (
        ("task", filters.tasks, {n.task for n in named}),
        ("arm", filters.arms, {n.arm for n in named}),
    ):
        for name in asked:
            if name not in known:
                raise UnknownName(kind, name, known, where=" among the attempts", flag=f"--{kind}s")


def _asked_for(
    attempts: Iterable[Candidate | LeftOut], filters: Filters
) -> list[Candidate | LeftOut]:
    """The attempts at the tasks and by the methods that the filters name."""
    named = [(a.summary if isinstance(a, Candidate) else a, a) for a in attempts]
    tasks, arms = filters.tasks, filters.arms
    return [a for n, a in named if (not tasks or n.task in tasks) and (not arms or n.arm in arms)]


def _failed(attempt: Candidate) -> str:
    if attempt.summary.success is None:
        return "success not judged yet"
    return "" if attempt.summary.success else f"failed ({attempt.summary.end})"


def _refusal(attempt: Candidate, filters: Filters) -> str:
    """Why a success is not taken, or nothing."""
    e, f = attempt.summary, filters
    if reason := _refused_by_extension(e, f):
        return reason
    if not attempt.certified and not attempt.judge and not f.uncertified:
        return attempt.uncertified
    if f.min_steps is not None and e.steps < f.min_steps:
        return f"shorter than {f.min_steps} steps"
    if f.max_steps is not None and e.steps > f.max_steps:
        return f"longer than {f.max_steps} steps"
    if f.max_cost_usd is not None and e.cost_usd is None:
        return "cost unknown"
    if f.max_cost_usd is not None and e.cost_usd is not None and e.cost_usd > f.max_cost_usd:
        return f"cost more than ${f.max_cost_usd:g}"
    if f.min_confidence is not None and e.confidence is None:
        return "no confidence was stated"
    if f.min_confidence is not None and (e.confidence or 0.0) < f.min_confidence:
        return f"mean confidence below {f.min_confidence:g}"
    return ""


def _refused_by_extension(episode: Summary, filters: Filters) -> str:
    for name, target in EXPORT_FILTERS.items():
        refusal: str = load(target).refusal(episode, name in filters.extensions)
        if refusal:
            return refusal
    return ""


def _by_key(selection: Selection) -> dict[StartKey, Candidate]:
    found: dict[StartKey, list[Candidate]] = defaultdict(list)
    for attempt in selection.attempts:
        found[attempt.summary.key].append(attempt)
    for (world, task, start, *_), several in found.items():
        if len(several) > 1:
            arms = ", ".join(sorted({a.summary.arm for a in several}))
            raise CapexError(
                f"{selection.name} has {len(several)} demonstrations of {world}:{task} start"
                f" {start} (arms: {arms}); pairs need one: name an arm of each run with --arms, or"
                " give a chain's folder instead of the run's",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
    return {key: several[0] for key, several in found.items()}
