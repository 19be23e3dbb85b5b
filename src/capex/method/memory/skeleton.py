"""The reliability skeleton: how well each phase ran open loop in earlier attempts, in counts only.

An attempt is cut into phases at its gripper events. A phase is named after the command that closes
it and the number of commands before it: open#0, close#1, release#2, and keep#3 for a last phase
that success ended without another command. Equal names match across attempts.

Where the paper leaves room:
- An event is a command that ran, skipped ones included ("already open"); one that a contact stop or
  a timeout kept from running is none.
  A command beside the waypoint that ended the episode counts, on whichever side of it the end came.
- A waypoint belongs to the phase it was meant for: the commands run before its plan plus those
  before it in the plan. So the lift behind a deferred "close" counts for the phase after the close,
  and again when it is proposed again. What was proposed for a phase that never began (none of its
  waypoints ran) counts in the totals only.
- A stall is a labelled motion that stopped progressing, finger contact included, and was not near
  enough to count as reached. The retry is the next waypoint that ran, if its requested targets lie
  within 2 cm for every arm that both of them move.
- Failed attempts are searched for stops of every kind (stall, contact, timeout, guard), base
  motions included: main text of the paper. Their unfinished last phase is named after the command
  it was last heading for, so that it matches the phases of successes.
- Of more than eight phases those seen in the most successes are listed.
- Base motions are proposed waypoints without a label. A phase without any label gets no verdict.
- With several arms a command's word carries its arm ("left close"), and two commands at one
  waypoint are two commands.
- An attempt that nobody has judged yet counts neither as a success nor as a failure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from capex.method.record import EpisodeRecord, WaypointRecord
from capex.models.prompt_values import PhaseKey, SkeletonValues
from capex.plan import Waypoint

PHASES_MAX = 8
SAFE_RATE, OBSERVE_RATE = 0.85, 0.70
SAFE_WAYPOINTS = 2
RETRY_M = 0.02
FAILURES_SHOWN = 3

NOT_RUN = ("not executed", "deferred")
STALLED = ("stalled", "finger contact")
COMMAND_LOST = (
    "contact",
    "timeout",
    "guard stop",
)  # after these the executor leaves out the gripper command
STOPPED = (*STALLED, *COMMAND_LOST)

HEAD = "RELIABILITY OF YOUR EARLIER ATTEMPTS"
NAMES = (
    "A phase ends with a gripper command and is named after it and the number of commands"
    " before it."
)
NO_SUCCESS = (
    "Nothing has succeeded yet, so no phase is known to work; this is what the failures tell."
)
ADVICE = (
    "Below is how reliably each phase ran without another look. It is no path to copy:"
    " take the waypoints themselves from the present views."
)

Key = tuple[int, str]  # commands before the phase, and the word that closes it


@dataclass(frozen=True)
class PhaseRun:
    """One phase of one attempt, counted."""

    key: Key
    proposed: int  # waypoints meant for the phase, whether they ran or not
    labelled: int
    reached: int
    stalls: int
    retried: int
    stops: int  # stalls, contacts and timeouts, of the base too


@dataclass
class _Tally:
    """A phase over all successes."""

    successes: int = 0
    proposed: Counter[int] = field(default_factory=Counter)
    labelled: int = 0
    reached: int = 0
    stalls: int = 0
    retried: int = 0


@dataclass
class _Stops:
    stops: int = 0
    attempts: int = 0


@dataclass
class Skeleton:
    """Accumulates attempts as counts: adding costs what the attempt is long."""

    task: str = ""
    attempts: int = 0
    successes: int = 0
    failures: int = 0
    _phases: dict[Key, _Tally] = field(default_factory=dict)
    _stops: dict[Key, _Stops] = field(default_factory=dict)
    _failed_labelled: int = 0
    _failed_reached: int = 0
    _ends: Counter[str] = field(default_factory=Counter)
    _waypoints: Counter[int] = field(default_factory=Counter)  # of successes: how many, how often
    _steps: Counter[int] = field(default_factory=Counter)

    def add(self, record: EpisodeRecord) -> None:
        """Count one attempt."""
        self.task = record.task
        self.attempts += 1
        if record.success is None:
            return
        runs = phases(record)
        if record.success:
            self._add_success(record, runs)
        else:
            self._add_failure(record, runs)

    def _add_success(self, record: EpisodeRecord, runs: tuple[PhaseRun, ...]) -> None:
        self.successes += 1
        self._waypoints[sum(len(turn.waypoints) for turn in record.turns)] += 1
        self._steps[record.steps] += 1
        for run in runs:
            tally = self._phases.setdefault(run.key, _Tally())
            tally.successes += 1
            tally.proposed[run.proposed] += 1
            tally.labelled += run.labelled
            tally.reached += run.reached
            tally.stalls += run.stalls
            tally.retried += run.retried

    def _add_failure(self, record: EpisodeRecord, runs: tuple[PhaseRun, ...]) -> None:
        self.failures += 1
        self._ends[record.end or "unknown"] += 1
        for run in runs:
            self._failed_labelled += run.labelled
            self._failed_reached += run.reached
            if run.stops:
                stops = self._stops.setdefault(run.key, _Stops())
                stops.stops += run.stops
                stops.attempts += 1

    def text(self, limit: int | None = None) -> str:
        """The summary for the prompt; empty before the first attempt.

        Beyond `limit` characters, details go in this order until it fits: retries, totals, the
        phases seen in the fewest successes one by one, failures, everything.
        """
        return self.shown(limit)[0]

    def shown(self, limit: int | None = None) -> tuple[str, SkeletonValues | None]:
        """The `text` and its values."""
        found = (v for v in self._versions() if limit is None or len(v[0]) <= limit)
        return next(found, ("", None))

    def _versions(self) -> Iterator[tuple[str, SkeletonValues]]:
        if not self.attempts:
            return
        head = [
            HEAD,
            f"{self.task}: {self._counts()}. {f'{ADVICE} {NAMES}' if self.successes else NAMES}",
        ]
        failures = self._failure_lines()
        counts = SkeletonValues(self.successes, self.failures)
        failed = replace(
            counts, stops={_value_key(k): (s.stops, s.attempts) for k, s in self._worst()}
        )
        if not self.successes:
            yield "\n".join([*head, *failures]), failed
            yield "\n".join(head), counts
            return
        ranked = sorted(self._phases, key=lambda key: (-self._phases[key].successes, key))
        ranked = ranked[:PHASES_MAX]
        whole = replace(failed, advice=self._advice(ranked))
        yield "\n".join([*head, *self._phase_lines(ranked, True), *failures, self._totals()]), whole
        yield (
            "\n".join([*head, *self._phase_lines(ranked, False), *failures, self._totals()]),
            whole,
        )
        for count in range(len(ranked), 0, -1):
            lines = self._phase_lines(ranked[:count], False)
            values = replace(failed, advice=self._advice(ranked[:count]))
            yield "\n".join([*head, *lines, *failures]), values
        yield "\n".join([*head, *failures]), failed
        yield "\n".join(head), counts

    def _advice(self, keys: Sequence[Key]) -> dict[PhaseKey, str]:
        return {
            _value_key(key): verdict(tally.reached / tally.labelled, median(tally.proposed))
            for key, tally in ((key, self._phases[key]) for key in keys)
            if tally.labelled
        }

    def _worst(self) -> list[tuple[Key, _Stops]]:
        """The phases in which failed attempts were stopped most."""
        stops = self._stops.items()
        worst = sorted(stops, key=lambda item: (-item[1].stops, -item[1].attempts, item[0]))
        return worst[:FAILURES_SHOWN]

    def _counts(self) -> str:
        unjudged = self.attempts - self.successes - self.failures
        waiting = f", {unjudged} not judged yet" if unjudged else ""
        attempts = _many(self.attempts, "earlier attempt")
        return f"{attempts}, {self.successes} succeeded, {self.failures} failed{waiting}"

    def _phase_lines(self, keys: list[Key], retries: bool) -> list[str]:
        numbered = enumerate(sorted(keys), start=1)
        return [self._phase_line(number, key, retries) for number, key in numbered]

    def _phase_line(self, number: int, key: Key, retries: bool) -> str:
        tally = self._phases[key]
        typical = median(tally.proposed)
        seen = f"in {tally.successes} of {_many(self.successes, 'success', 'successes')}"
        length = f"{typical:g} waypoint{'s' * (typical != 1)} typical"
        span = f"(range {min(tally.proposed)}-{max(tally.proposed)})"
        reached = f"reached {tally.reached}/{tally.labelled}"
        labels = reached if tally.labelled else "none with a reach label"
        parts = [f"Phase {number} ({key_text(key)}, {seen}): {length} {span}, {labels}"]
        if tally.stalls and retries:
            stalls = _many(tally.stalls, "stall")
            parts.append(f"{tally.retried} of {stalls} retried at the same point")
        if tally.labelled:
            parts.append(verdict(tally.reached / tally.labelled, typical))
        return "; ".join(parts) + "."

    def _failure_lines(self) -> list[str]:
        lines = []
        if not self.successes:
            lines.append(NO_SUCCESS)
            if self._failed_labelled:
                share = f"{self._failed_reached}/{self._failed_labelled}"
                lines.append(f"Their arm motions reached {share} targets.")
        if self._stops:
            most = ", ".join(
                f"{key_text(k)} ({_many(s.stops, 'stop')} in {_many(s.attempts, 'attempt')})"
                for k, s in self._worst()
            )
            lines.append(f"Failed attempts stalled or were stopped most in: {most}.")
        if not self.successes and self._ends:
            ends = sorted(self._ends.items(), key=lambda item: (-item[1], item[0]))
            listed = ", ".join(f"{word} ({count})" for word, count in ends)
            lines.append(f"How they ended: {listed}.")
        return lines

    def _totals(self) -> str:
        span = f"(range {min(self._waypoints)}-{max(self._waypoints)})"
        typical = f"{median(self._waypoints):g} waypoints {span}"
        return f"A success typically took {typical} and {median(self._steps):g} control steps."


def verdict(rate: float, typical: float) -> str:
    """The paper's advice for a phase by its reach rate and typical number of waypoints."""
    if rate < OBSERVE_RATE:
        return "observe after each waypoint"
    safe = rate >= SAFE_RATE and typical >= SAFE_WAYPOINTS
    return "chunk-safe" if safe else "chunk with a stop on stall"


def phases(record: EpisodeRecord) -> tuple[PhaseRun, ...]:
    """An attempt cut at its gripper events: the phases of which a waypoint ran, in order."""
    # commands before a phase -> its waypoints, each with whether it was retried
    members: dict[int, list[tuple[WaypointRecord, bool]]] = {}
    closed_by: dict[int, str] = {}
    heading_for: dict[int, str] = {}
    for (row, done, planned), again in zip(_placed(record), _retried(record), strict=True):
        members.setdefault(done + planned, []).append((row, again))
        count, word = _commands(row)
        if not count:
            continue
        if not _lost(row):
            closed_by[done] = word
        elif not planned:
            heading_for[done] = word
    unclosed = {} if record.success else heading_for
    return tuple(
        _count((before, closed_by.get(before) or unclosed.get(before, "keep")), rows)
        for before, rows in sorted(members.items())
        if any(row.status not in NOT_RUN for row, _ in rows)
    )


def phase_numbers(record: EpisodeRecord) -> list[int]:
    """For every waypoint in order its phase: the number of gripper commands before it."""
    return [done + planned for _, done, planned in _placed(record)]


def _placed(record: EpisodeRecord) -> Iterator[tuple[WaypointRecord, int, int]]:
    """Every waypoint with the gripper commands that ran before it, and those of its plan that did
    not.
    """
    done = 0
    for turn in record.turns:
        planned = 0
        for row in turn.waypoints:
            yield row, done, planned
            if _lost(row):
                planned += _commands(row)[0]
            else:
                done += _commands(row)[0]


def _lost(row: WaypointRecord) -> bool:
    """Whether a waypoint's gripper command did not run."""
    return row.status in NOT_RUN or row.status in COMMAND_LOST


def key_text(key: Key) -> str:
    """A phase's name, as close#1."""
    return f"{key[1]}#{key[0]}"


def _value_key(key: Key) -> PhaseKey:
    return key[1], key[0]


def median(counts: Counter[int]) -> float:
    """The median of values given with how often each occurs."""
    total, seen = counts.total(), 0
    lower: int | None = None
    for value, times in sorted(counts.items()):
        seen += times
        if lower is None and 2 * seen >= total:
            lower = value
        if lower is not None and 2 * seen > total:
            return (lower + value) / 2
    raise ValueError("there is no median of nothing")


def _count(key: Key, rows: list[tuple[WaypointRecord, bool]]) -> PhaseRun:
    stalls = [again for row, again in rows if row.label == 0 and row.status in STALLED]
    return PhaseRun(
        key=key,
        proposed=len(rows),
        labelled=sum(row.label is not None for row, _ in rows),
        reached=sum(row.label == 1 for row, _ in rows),
        stalls=len(stalls),
        retried=sum(stalls),
        stops=sum(row.status in STOPPED and row.label != 1 for row, _ in rows),
    )


def _retried(record: EpisodeRecord) -> Iterator[bool]:
    """For every waypoint in order, whether the next one that ran went to the same point."""
    rows = [row for turn in record.turns for row in turn.waypoints]
    following: list[WaypointRecord | None] = []
    later: WaypointRecord | None = None
    for row in reversed(rows):
        following.append(later)
        if row.status not in NOT_RUN:
            later = row
    return (
        after is not None and _same_point(row.waypoint, after.waypoint)
        for row, after in zip(rows, reversed(following), strict=True)
    )


def _same_point(a: Waypoint, b: Waypoint) -> bool:
    shared = a.targets.keys() & b.targets.keys()
    pairs = [(a.targets[n].position_m, b.targets[n].position_m) for n in shared]
    apart = [math.dist(p, q) for p, q in pairs if p is not None and q is not None]
    return bool(apart) and max(apart) <= RETRY_M


def _commands(row: WaypointRecord) -> tuple[int, str]:
    """How many gripper commands a waypoint carries, and their word."""
    words = [(name, t.gripper) for name, t in row.waypoint.targets.items() if t.gripper != "keep"]
    several = len(row.tips) > 1
    return len(words), "+".join(f"{name} {word}" if several else word for name, word in words)


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"
