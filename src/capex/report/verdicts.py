"""What people judged: claims that they rejected, reasons of failures, who judged, and verdicts that
changed after memory had learned from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from capex.report.compare import TaskKey, task_of
from capex.report.rows import RunData
from capex.report.sources import STAND_IN, Source
from capex.run.summary import Summary

NO_REASON = "no reason given"
MANY = 8  # changed verdicts that are named one by one


@dataclass(frozen=True)
class ClaimCount:
    """How often a model said that it was done, and a person that it was not."""

    made: int  # of those that were judged
    rejected: int


def judged_by_people(sources: Sequence[Source]) -> list[TaskKey]:
    """The tasks whose success a person judges."""
    keys = [task_of(e) for s in sources for e in s.episodes if e.by_person]
    keys += [task_of(row) for s in sources for row in s.invalid if row.verdict is not None]
    return sorted(set(keys))


def at_tasks(source: Source, keys: Sequence[TaskKey]) -> Source:
    """What a source did at some tasks."""
    return replace(
        source,
        episodes=tuple(e for e in source.episodes if task_of(e) in keys),
        invalid=tuple(row for row in source.invalid if task_of(row) in keys),
        lost=tuple(row for row in source.lost if task_of(row) in keys),
    )


def claims(source: Source) -> ClaimCount:
    """The claims that were judged, and those that were rejected."""
    claimed = [e.success for e in source.scorable if e.claimed_done]
    return ClaimCount(len(claimed), claimed.count(False))


def failure_reasons(source: Source) -> Counter[str]:
    """Failures by the reason that the judge chose."""
    verdicts = [e.verdict for e in source.episodes]
    failed = [v for v in verdicts if v is not None and v.verdict == "failure"]
    return Counter(v.reason or NO_REASON for v in failed)


def judges(data: RunData, sources: Sequence[Source]) -> dict[str, Counter[str]]:
    """By who judged, labelled where it was a stand-in: how often each word was said."""
    said: dict[str, Counter[str]] = {}
    for source in sources:
        spoken = [(e.run, v) for e in source.episodes for v in e.verdicts]
        spoken += [(row.run, row.verdict) for row in source.invalid if row.verdict is not None]
        for run, verdict in spoken:
            known = data.runs[run].manifest.operators.get(verdict.by, False)
            named = known and STAND_IN not in verdict.by
            name = f"{verdict.by} ({STAND_IN})" if named else verdict.by
            said.setdefault(name, Counter())[verdict.verdict] += 1
    return said


def changed_verdicts(sources: Sequence[Source]) -> list[str]:
    """Each verdict that was changed after a later episode's memory had learned from it."""
    changed: dict[tuple[int, str, str], list[str]] = {}
    for source in sources:
        held = {(e.run, e.chain, str(e.start)): e for e in source.episodes}
        for episode in source.episodes:
            for start, seen in episode.verdicts_seen.items():
                key = episode.run, episode.chain, start
                if isinstance(seen, Mapping) and (now := _change(held.get(key), seen)):
                    was = f"{episode.chain} start {start} ({seen.get('verdict')}, now {now})"
                    changed.setdefault(key, []).append(was)
    return [f"{words[0]}, seen by {len(words)}" for words in changed.values()]


def _change(episode: Summary | None, seen: Mapping[str, object]) -> str:
    """What holds now in place of a verdict that memory saw; empty where it still does."""
    verdict = None if episode is None else episode.verdict
    if episode is None or seen.get("at") not in {v.at for v in episode.verdicts}:
        return "another attempt"
    if verdict is None:
        return "unjudged"
    return "" if verdict.verdict == seen.get("verdict") else verdict.verdict
