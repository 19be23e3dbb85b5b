"""Past the paper: a page of what stopped the latest failed attempts, beside the successes.

    WHAT STOPPED EARLIER ATTEMPTS
    Failed attempt 1 (start 7): 3 phases begun, the last release#2; ended by horizon after 900 steps
    - close#1, 2 times: [47,-41,60] down stalled 3.6 cm from target
    - release#2, 1 time: [30,12,80] stopped by contact (forearm on cabinet)

One line for each attempt, newest first, and below it up to three lines for what stopped it most:
the phase, named as in the skeleton, how often a motion meant for it was stopped in one way (stall,
contact, timeout ..), and the last of those motions as requested, base cm, with its report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capex.method.memory.skeleton import STOPPED, key_text, phase_numbers, phases
from capex.method.observation import base_text, hand_words, position_text
from capex.method.record import EpisodeRecord, WaypointRecord
from capex.models.prompt_values import PhaseStops

FAILURES_MAX = 8
STOPS_SHOWN = 3
SIZE_MAX = 1_600  # characters of the page
HEAD = (
    "WHAT STOPPED EARLIER ATTEMPTS\nNewest first, with the targets (base cm) at which motions were"
    " stopped. Things stood elsewhere then: learn what goes wrong, and do not copy places."
)


@dataclass(frozen=True)
class Failure:
    """What one failed attempt leaves: a line about it, and lines about its stops, worst first."""

    start: int
    line: str
    stops: tuple[str, ...]
    values: tuple[PhaseStops, ...]  # of the stops


@dataclass(frozen=True)
class ShownFailures:
    """The page as a prompt shows it."""

    text: str
    values: tuple[tuple[PhaseStops, ...], ...]  # by attempt


def digest_failure(record: EpisodeRecord) -> Failure:
    """A failed attempt in a few lines."""
    runs = phases(record)
    words = {run.key[0]: key_text(run.key) for run in runs}
    rows = [row for turn in record.turns for row in turn.waypoints]
    stopped: dict[tuple[int, str], list[WaypointRecord]] = {}
    for row, phase in zip(rows, phase_numbers(record), strict=True):
        if row.status in STOPPED and row.label != 1 and phase in words:
            stopped.setdefault((phase, row.status), []).append(row)
    worst = sorted(stopped.items(), key=lambda item: (-len(item[1]), -item[0][0], item[0][1]))
    worst = worst[:STOPS_SHOWN]
    word_of = dict(run.key for run in runs)
    began = f"{len(runs)} phase{'s' * (len(runs) != 1)} begun"
    far = f"{began}, the last {key_text(runs[-1].key)}" if runs else "nothing moved"
    ended = f"ended by {record.end or 'unknown'} after {record.steps} steps"
    lines = tuple(
        f"- {words[phase]}, {len(held)} time{'s' * (len(held) != 1)}: {_text(held[-1])}"
        for (phase, _), held in worst
    )
    values = tuple(PhaseStops((word_of[phase], phase), len(held)) for (phase, _), held in worst)
    return Failure(record.start, f"{far}; {ended}", lines, values)


def failures_page(failures: Sequence[Failure], shown: int, limit: int = SIZE_MAX) -> ShownFailures:
    """The page about the latest of `failures` (oldest first) in at most `limit` characters; empty
    where there is none. Longer, it loses stops, the least of each attempt first, then attempts.
    """
    latest = list(reversed(failures))[:shown]
    return next((v for v in _versions(latest) if len(v.text) <= limit), ShownFailures("", ()))


def _versions(latest: list[Failure]) -> Iterator[ShownFailures]:
    for count in range(len(latest), 0, -1):
        for stops in range(STOPS_SHOWN, -1, -1):
            lines = [HEAD]
            for number, failure in enumerate(latest[:count], start=1):
                lines.append(f"Failed attempt {number} (start {failure.start}): {failure.line}")
                lines += failure.stops[:stops]
            values = tuple(failure.values[:stops] for failure in latest[:count])
            yield ShownFailures("\n".join(lines), values)


def _text(row: WaypointRecord) -> str:
    """A stopped motion as requested, and its report, on one line."""
    base = row.waypoint.base
    parts = [] if base is None else [f"{base_text(base)}:"]
    for name, target in row.waypoint.targets.items():
        where = [] if target.position_m is None else [position_text(target.position_m)]
        if words := [*where, *hand_words(target)]:
            parts.append(" ".join([name, *words] if len(row.tips) > 1 else words))
    return f"{' + '.join(parts)} {' '.join(row.report.split())}".strip()
