"""An episode in numbers: what chains, status, report, selection and evaluations share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.method.record import EndReason, Resumed, Turn
from capex.models import NO_TOKENS, LedgerTotals, Usage
from capex.models.cassette import read_requests
from capex.pose import Array
from capex.run import InvalidAttempt, LoadedChain, LoadedEpisode, Origin, parts, readable
from capex.run.spend import Account, ChainStart, Slots
from capex.run.store import Chain
from capex.run.verdicts import Verdict, standing

ZERO = Decimal(0)
ROUNDING_USD = Decimal("1e-9")  # records hold sums as floats
TOKENS = tuple(f.name for f in fields(Usage))
# Known, and at most: attempts that may have been billed count with their worst case.
Dollars = tuple[Decimal, Decimal]


@dataclass(frozen=True)
class Taken:
    """What one attempt took, or several together."""

    requests: int = 0  # that returned a reply
    attempts: int = 0  # on the wire
    usd: Dollars | None = (ZERO, ZERO)  # None where there is no price
    tokens: Usage | None = None  # None where nobody kept a ledger
    seconds: float = 0.0  # wall time without resets

    def __add__(self, other: Taken) -> Taken:
        usd = (
            None
            if self.usd is None or other.usd is None
            else (self.usd[0] + other.usd[0], self.usd[1] + other.usd[1])
        )
        return Taken(
            self.requests + other.requests,
            self.attempts + other.attempts,
            usd,
            _sum(self.tokens, other.tokens),
            self.seconds + other.seconds,
        )

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to count."""
        return not (self.requests or self.attempts or any(self.usd or ()) or self.seconds)


def of_episode(episode: LoadedEpisode) -> Taken:
    """A whole attempt, answers from before it was cut off included."""
    record = episode.record
    totals = record.ledger or LedgerTotals(attempts=record.requests)
    totals = replace(totals, requests=record.requests, cost_usd=record.cost_usd)
    return _taken(totals, episode.seconds)


def of_invalid(attempt: InvalidAttempt, *, continued: bool) -> Taken:
    """An invalidated attempt. If it was continued, its requests and the time that its answers took
    are part of the one that did.
    """
    seconds = attempt.timing.episode_s
    if continued:
        return Taken(tokens=NO_TOKENS, seconds=max(0.0, seconds - attempt.timing.answered_s))
    return _taken(attempt.note.ledger or LedgerTotals(), seconds)


def of_account(account: Account, seconds: float = 0.0) -> Taken:
    """What spend.jsonl says of a start."""
    usd = (account.settled_usd, account.total_usd) if account.priced else None
    return Taken(account.requests, account.attempts, usd, account.tokens, seconds)


def invalid_attempts(chain: LoadedChain) -> list[tuple[InvalidAttempt, Taken]]:
    """The invalidated attempts of a chain with what each took by itself."""
    last: dict[int, InvalidAttempt] = {a.index: a for a in chain.invalid}
    finished = {e.index for e in chain.episodes}
    return [
        (
            a,
            of_invalid(
                a, continued=a.note.continues and (a.index in finished or last[a.index] is not a)
            ),
        )
        for a in chain.invalid
    ]


def unrecorded(chain: LoadedChain, slots: Mapping[ChainStart, Account]) -> dict[int, Taken]:
    """By start, what spend.jsonl has beyond the records; starts without a difference are
    left out.
    """
    return _beyond(_recorded(chain), chain.name, slots)


def _beyond(
    recorded: Mapping[int, Taken], chain: str, slots: Mapping[ChainStart, Account]
) -> dict[int, Taken]:
    rest_by_start = {}
    for start, account in _of_chain(slots, chain).items():
        rest = _difference(of_account(account), recorded.get(start, Taken(tokens=NO_TOKENS)))
        if not rest.nothing:
            rest_by_start[start] = rest
    return rest_by_start


def _of_chain(slots: Mapping[ChainStart, Account], chain: str) -> Mapping[int, Account]:
    if isinstance(slots, Slots):  # no look at all others: a campaign may have a thousand chains
        return slots.of_chain(chain)
    return {start: account for (name, start), account in slots.items() if name == chain}


def forgotten(
    chain: LoadedChain, slots: Mapping[ChainStart, Account], lineage: Sequence[Origin] = ()
) -> dict[int, Taken]:
    """By start, what the records of a chain and the exchanges of its cut-off attempts hold beyond
    spend.jsonl. Each request is entered there before it is sent, and each reply when it came, so
    that there is nothing unless lines of the file are lost. Replies are compared too, because the
    retries of an outage are in the file and in no record. Of exchanges without a record only their
    number counts here.
    """
    own = parts(chain, lineage)[0]
    recorded = _recorded(own)
    for start in Chain(chain.path).unfinished_starts():
        requests, sent = _sent(Chain(chain.path).unfinished(start))
        before = recorded.get(start, Taken(tokens=NO_TOKENS))
        recorded[start] = replace(
            before, requests=max(before.requests, requests), attempts=max(before.attempts, sent)
        )
    lacking, accounts = {}, _of_chain(slots, own.name)
    for start, held in sorted(recorded.items()):
        account = accounts.get(start, Account())
        usd = ZERO if held.usd is None else held.usd[0] - account.total_usd
        # A model that lets nobody watch has replies in its records, and attempts nowhere.
        replies = min(held.requests, held.attempts) - account.requests - account.unsettled
        if held.attempts > account.attempts or replies > 0 or usd > ROUNDING_USD:
            lacking[start] = _lacking(held, account, replies)
    return lacking


def _lacking(held: Taken, account: Account, replies: int) -> Taken:
    """What records have beyond spend.jsonl: known dollars in full, whatever else that holds."""
    rest = _difference(held, of_account(account))
    rest = replace(rest, attempts=max(rest.attempts, replies))
    if rest.usd is None or held.usd is None:
        return rest
    known = max(ZERO, held.usd[0] - account.settled_usd)
    return replace(rest, usd=(known, max(known, rest.usd[1])))


def _sent(log: Path) -> tuple[int, int]:
    """Replies and attempts in the exchanges of a cut-off attempt; 0 where they cannot be read."""
    if not readable(log):
        return 0, 0
    requests = read_requests(log, torn_end=True)
    attempts = [attempt for request in requests for attempt in request.attempts()]
    return sum(attempt.replied for attempt in attempts), len(attempts)


def by_start(
    chain: LoadedChain, slots: Mapping[ChainStart, Account], lineage: Sequence[Origin] = ()
) -> dict[int, Taken]:
    """By start, everything that its attempts took, those from before a branch included."""
    own = parts(chain, lineage)[0]
    recorded = _recorded(own)
    rest = _beyond(recorded, own.name, slots)
    return _joined(recorded, rest, before_branch(chain, lineage))


def before_branch(chain: LoadedChain, lineage: Sequence[Origin]) -> dict[int, Taken]:
    """By start, what the attempts took that a branch began with: spend.jsonl of the branch knows
    nothing of them.
    """
    return _joined(*(_recorded(part) for part in parts(chain, lineage)[1:]))


def _recorded(chain: LoadedChain) -> dict[int, Taken]:
    return _joined(
        *({e.index: of_episode(e)} for e in chain.episodes),
        *({a.index: taken} for a, taken in invalid_attempts(chain)),
    )


def _joined(*tables: Mapping[int, Taken]) -> dict[int, Taken]:
    joined: dict[int, Taken] = {}
    for table in tables:
        for start, taken in table.items():
            joined[start] = joined[start] + taken if start in joined else taken
    return joined


def _taken(totals: LedgerTotals, seconds: float) -> Taken:
    """From the totals of a record: the cost if that is known, otherwise from the known part to the
    highest possible one.
    """
    low = totals.known_cost_usd if totals.cost_usd is None else totals.cost_usd
    usd = None
    if low is not None:
        exact = Decimal(str(low))
        usd = exact, exact + Decimal(str(totals.held_usd))
    return Taken(totals.requests, totals.attempts, usd, totals.tokens, seconds)


def _difference(more: Taken, less: Taken) -> Taken:
    """What one has beyond the other; where that has more, nothing."""
    usd = more.usd
    if usd is not None and less.usd is not None:
        low, high = max(ZERO, usd[0] - less.usd[0]), max(ZERO, usd[1] - less.usd[1])
        usd = min(low, high), high
    tokens = None
    if more.tokens is not None and less.tokens is not None:
        tokens = Usage(
            **{n: max(0, getattr(more.tokens, n) - getattr(less.tokens, n)) for n in TOKENS}
        )
    return Taken(
        max(0, more.requests - less.requests), max(0, more.attempts - less.attempts), usd, tokens
    )


def _sum(a: Usage | None, b: Usage | None) -> Usage | None:
    return b if a is None else a.plus(b)


NO_LABEL = -1
# In the extensions of a student's record: the policy, the source of the instruction's embedding.
STUDENT = "student"
HEARD = "instruction_embedding"
StartKey = tuple[str, str, int, int, str]  # world, task, index, seed, saved state
# Known, and at most: requests that may have been billed count with their worst case.
DollarSpan = tuple[float, float]
# From the record to its summary.
COPIED = (
    *("world", "task", "arm", "model", "stand_in", "start", "seed"),
    *("end", "steps", "cost_usd", "instruction"),
)


@dataclass(frozen=True, slots=True)
class WaypointColumns:
    """All waypoints of an episode's plans in order, as columns (n,)."""

    plan: npt.NDArray[np.int32]  # which plan of the episode, from 0
    place: npt.NDArray[np.int32]  # k, from 1
    stated: Array  # nan where none was stated
    calibrated: Array  # as predicted before the episode; nan where nothing was
    committed: npt.NDArray[np.bool_]  # whether it was committed to
    label: npt.NDArray[np.int8]  # 1, 0 or NO_LABEL


@dataclass(frozen=True, slots=True)
class Summary:
    """One whole attempt, without its words and arrays."""

    chain: str  # WORLD--TASK--ARM
    path: Path
    world: str
    task: str
    arm: str
    model: str
    stand_in: bool
    start: int
    seed: int
    position: int  # slot in the chain's order
    success: bool | None  # that counts: by the world or by a verdict
    end: EndReason
    steps: int
    decisions: int
    skipped: int  # decisions that passed without motion
    requests: int
    wire_attempts: int  # requests with their retries
    cost_usd: float | None  # as recorded; None where part of it is not known
    usd: DollarSpan | None  # None where there is no price
    tokens: Usage | None
    seconds: float
    unix_time: float | None
    instruction: str
    labels_before: int
    weights: tuple[float, ...] | None
    plans: int
    truncated: int
    calls: tuple[int, ...]  # replies that each decision took
    waypoints: WaypointColumns
    student: Mapping[str, Any] | None  # what is known of the trained policy that acted, if one did
    run: int = 0  # index of its run, where several are read together
    by_person: bool = False  # whether a person judges it, not the world
    verdicts: tuple[Verdict, ...] = ()  # of people, oldest first
    # By start, which verdict its memory had learned from; None where the world judges, or there is
    # no memory.
    verdicts_seen: Mapping[str, Any] = field(default_factory=dict)
    resumed: Resumed | None = None  # where it resumed from a saved state of another one
    messages: int = 0  # of people to the model: it knew more than others
    human_steps: int = 0  # by a person: its outcome is not the model's
    extensions: Mapping[str, Any] = field(default_factory=dict)  # of its record

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that stands."""
        return standing(self.verdicts)

    @property
    def claimed_done(self) -> bool:
        """Whether the model said that it was done: a claim, which decides nothing."""
        return self.end is EndReason.DONE

    @property
    def number(self) -> int:
        """The number of its folder: its start's, or its own where it resumed from a state."""
        return self.start if self.resumed is None else self.resumed.number

    @property
    def key(self) -> StartKey:
        """Equal for episodes of two methods that can be paired: the start, and the saved state
        that they resumed from.
        """
        state = "" if self.resumed is None else self.resumed.state
        return self.world, self.task, self.start, self.seed, state

    @property
    def confidence(self) -> float | None:
        """Mean confidence, calibrated where it is, of the waypoints that got a label."""
        w = self.waypoints
        values = np.where(np.isnan(w.calibrated), w.stated, w.calibrated)[w.label != NO_LABEL]
        known = [float(v) for v in values if not np.isnan(v)]
        return sum(known) / len(known) if known else None


def summarize(episode: LoadedEpisode, run: int = 0) -> Summary:
    """The numbers of an episode, from its saved state on where it resumed from one."""
    record = episode.record.own_part()
    student = record.extensions.get(STUDENT)
    if isinstance(student, Mapping) and HEARD in record.extensions:
        student = {**student, HEARD: record.extensions[HEARD]}
    planned = [t for t in record.turns if t.waypoints]
    return Summary(
        run=run,
        path=episode.path,
        chain=episode.chain,
        position=episode.position,
        success=episode.success,
        by_person=record.success is None,
        verdicts=episode.verdicts,
        verdicts_seen=episode.verdicts_seen,
        **{name: getattr(record, name) for name in COPIED},
        **amounts(of_episode(episode)),
        decisions=record.decisions,
        skipped=sum(bool(t.skipped_reason) for t in record.turns),
        unix_time=episode.timing.unix_time,
        labels_before=record.labels_before or 0,
        weights=record.weights,
        plans=len(planned),
        truncated=sum(t.committed < len(t.waypoints) for t in planned),
        calls=tuple(t.calls for t in record.turns),
        waypoints=_columns(planned),
        resumed=record.resumed,
        messages=len(record.messages),
        human_steps=record.human_steps,
        extensions=record.extensions,
        student=student if isinstance(student, Mapping) else None,
    )


def amounts(taken: Taken) -> dict[str, Any]:
    """What an attempt took, as a summary's fields."""
    return {
        "requests": taken.requests,
        "wire_attempts": taken.attempts,
        "usd": None if taken.usd is None else (float(taken.usd[0]), float(taken.usd[1])),
        "tokens": taken.tokens,
        "seconds": taken.seconds,
    }


def _columns(planned: Sequence[Turn]) -> WaypointColumns:
    waypoints = [w for turn in planned for w in turn.waypoints]
    places = [(i, k + 1) for i, turn in enumerate(planned) for k in range(len(turn.waypoints))]
    labels = [NO_LABEL if w.label is None else w.label for w in waypoints]
    return WaypointColumns(
        plan=np.array([i for i, _ in places], dtype=np.int32),
        place=np.array([k for _, k in places], dtype=np.int32),
        stated=np.array([w.waypoint.confidence for w in waypoints], dtype=np.float64),
        calibrated=np.array([w.calibrated for w in waypoints], dtype=np.float64),
        committed=np.array([k <= planned[i].committed for i, k in places], dtype=np.bool_),
        label=np.array(labels, dtype=np.int8),
    )
