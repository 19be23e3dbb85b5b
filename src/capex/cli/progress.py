"""How a campaign looks while it runs: a table that updates itself on a terminal, plain lines
elsewhere, JSON for machines.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from capex.campaign import events as ev
from capex.campaign.board import Board, ChainLine
from capex.campaign.events import as_json
from capex.campaign.names import start_text
from capex.campaign.status import above_bound_sentence
from capex.cli.tables import FittedTable

Watch = Callable[[ev.Event, Board], None]
REFRESH_S = 0.25


@contextmanager
def watching(console: Console, json_events: bool) -> Iterator[Watch]:
    """The watcher that suits where the output goes."""
    if json_events:
        yield _print_json
    elif console.is_terminal:
        display = _Display(console)
        try:
            yield display
        finally:
            display.close()
    else:
        yield _Plain(console)


def paused(watch: Watch) -> AbstractContextManager[None]:
    """While a person is asked something, a display that is redrawn stands still."""
    return watch.paused() if isinstance(watch, _Display) else nullcontext()


def _print_json(event: ev.Event, board: Board) -> None:
    sys.stdout.write(json.dumps(as_json(event, time.time())) + "\n")
    sys.stdout.flush()


class _Display:
    """The table, redrawn at most four times a second, and above it what is worth keeping on the
    screen.
    """

    def __init__(self, console: Console):
        self._console, self._drawn = console, 0.0
        self._live = self._new()
        self._worth = _Worth()
        self._still = threading.Lock()  # held while a person is asked something

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The terminal belongs to somebody who is asked."""
        with self._still:
            self._live.stop()
            self._live = self._new()  # drawn below what was said meanwhile, not over it
            yield

    def close(self) -> None:
        """The table stays as it is."""
        self._live.stop()

    def _new(self) -> Live:
        return Live(console=self._console, refresh_per_second=4, transient=False)

    def __call__(self, event: ev.Event, board: Board) -> None:
        free = self._still.acquire(blocking=False)
        try:
            self._show(event, board, free)
        finally:
            if free:
                self._still.release()

    def _show(self, event: ev.Event, board: Board, free: bool) -> None:
        if free:
            self._live.start()  # with the first event: before it a person may be asked something
        told = isinstance(
            event,
            ev.CampaignBegan
            | ev.AttemptInvalid
            | ev.CostAboveBound
            | ev.ChainPaused
            | ev.Forecast
            | ev.Allocated
            | ev.Stopping,
        )
        if (told or (isinstance(event, ev.ChainEnded) and event.error)) and self._worth(event):
            self._live.console.print(sentence(event, board), markup=False, highlight=False)
        if not free:
            return
        if time.monotonic() - self._drawn > REFRESH_S or isinstance(event, ev.CampaignEnded):
            self._drawn = time.monotonic()
            rest = self._console.height - FRAME_LINES
            self._live.update(table(board, "", most=max(FEWEST_CHAINS, rest)))


class _Worth:
    """Whether an event is worth a line. That the model is down is said once in a pause, though
    every chain finds it out for itself.
    """

    def __init__(self) -> None:
        self._known_until = 0.0  # unix time

    def __call__(self, event: ev.Event) -> bool:
        if isinstance(event, ev.AttemptInvalid):
            return event.counts or event.then != "again"  # the rest is what the pause says
        if isinstance(event, ev.ChainPaused):
            new = time.time() >= self._known_until
            self._known_until = max(self._known_until, time.time() + event.seconds)
            return new
        return not isinstance(event, ev.EpisodeMoved | ev.EpisodeBegan)


class _Plain:
    """One line for each thing that happened; steps and waits are left out."""

    def __init__(self, console: Console):
        self._console, self._worth = console, _Worth()

    def __call__(self, event: ev.Event, board: Board) -> None:
        if self._worth(event):
            self._console.print(
                sentence(event, board), markup=False, highlight=False, soft_wrap=True
            )


FRAME_LINES = 8  # of a table: its head, the totals, the caption and a line to spare
FEWEST_CHAINS = 4  # however low the terminal is
COLUMNS = (
    "chain",
    "starts",
    "success",
    "95 %",
    "now",
    "decision",
    "steps",
    "$",
    "$/success",
    "per $",
)
FEWER = ("chain", "starts", "success", "now", "$")  # on a narrow terminal


def table(board: Board, title: str, note: str = "", most: int | None = None) -> FittedTable:
    """One line per chain, and the totals; columns that have nothing to say are left out. `most`:
    of more chains than that, those at work come first and the rest are counted.
    """
    one_world = len({name.partition("--")[0] for name in board.lines}) == 1
    lines = list(board.lines.values())
    if most is not None and len(lines) > most:
        lines = sorted(lines, key=lambda line: not line.now)[:most]
        more = f"{len(board.lines) - most} more chains are not shown (capex status shows all)"
        note = "; ".join(w for w in (note, more) if w)
    rows = [_cells(line, one_world) for line in lines]
    if len(rows) > 1:
        busy = [m for line in board.lines.values() for m in line.now.values()]
        waiting = sum(m.phase == "waiting" for m in busy)
        doing = f"{waiting} waiting, {len(busy) - waiting} at work" if busy else ""
        rows.append(_cells(board.total, False) | {"now": doing})
    hours = board.hours_left
    left = f"about {duration(3600 * hours)} left" if hours else ""
    caption = "; ".join(w for w in (note, left) if w)
    return FittedTable(*(_grid(rows, columns, title, caption) for columns in (COLUMNS, FEWER)))


def _grid(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], title: str, caption: str
) -> Table:
    grid = Table(
        title=title or None, title_justify="left", caption=caption or None, caption_justify="left"
    )
    shown = [name for name in columns if any(row[name] for row in rows)]
    for name in shown:
        folds = name in ("chain", "now")
        grid.add_column(
            name, justify="left" if folds else "right", no_wrap=not folds, overflow="fold"
        )
    for number, row in enumerate(rows):
        grid.add_row(
            *(row[name] for name in shown),
            end_section=number == len(rows) - 2,
            style="bold" if row["chain"] == "total" else "",
        )
    return grid


def _cells(line: ChainLine, one_world: bool) -> dict[str, str]:
    """What the columns say about a chain."""
    low, high = line.interval
    now = sorted(line.now.values(), key=lambda m: m.start)[:3]
    doing = ", ".join(f"start {start_text(m.start)} {m.phase}" for m in now) + (
        f", {len(line.now) - 3} more" if len(line.now) > 3 else ""
    )
    wanted = f"/{line.wanted}" if line.wanted is not None else ""
    invalid = f" +{line.invalid} invalid" if line.invalid else ""
    invalid += f", {line.unjudged} unjudged" if line.unjudged else ""
    state = line.state
    if line.paused_until is not None and state.startswith("paused"):
        state = (
            f"paused {duration(max(0.0, line.paused_until - time.time()))}{state[len('paused') :]}"
        )
    return {
        "chain": escape(" ".join(line.chain.split("--")[1 if one_world else 0 :])),
        "starts": f"{line.episodes}{wanted}{invalid}",
        "success": (
            f"{line.successes}"
            + (f" of {line.until}" if line.until is not None else f"/{line.judged}")
        ),
        "95 %": f"{100 * low:.0f}-{100 * high:.0f}" if line.judged else "",
        "now": escape(doing or state),
        "decision": ",".join(str(m.decision) for m in now),
        "steps": ",".join(str(m.steps) for m in now),
        "$": "" if line.usd is None or not line.episodes else span(*line.usd),
        "$/success": per_success(line),
        "per $": "" if line.per_dollar is None else f"{line.per_dollar:.2f}",
    }


def per_success(line: ChainLine) -> str:
    """Dollars a success, where they are known."""
    value = line.usd_per_success
    return "" if value is None else span(*value)


def span(low: float, high: float) -> str:
    """Dollars: one amount, or from what is known to what may have been billed at most."""
    if math.isinf(low):
        return "∞"
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}-{high:.2f}"


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def sentence(event: ev.Event, board: Board) -> str:
    """An event in words."""
    match event:
        case ev.CampaignBegan():
            what = "stand-in" if event.stand_in else "model"
            todo = (
                f"{event.episodes} episodes to run"
                if event.episodes is not None
                else "running until there are enough successes"
            )
            warning = f"\nwarning: {event.warning}" if event.warning else ""
            return (
                f"{event.run}: {len(event.chains)} chains with the {what} {event.model}, {todo};"
                f" {event.ceiling}{warning}"
            )
        case ev.EpisodeEnded():
            line, e = board.lines[event.chain], event.summary
            kind, number = ("start", start_text(e.number)), ("fork", str(e.number))
            what = " ".join(kind if e.resumed is None else number)
            words = {True: "success", False: f"no success ({e.end})", None: "to be judged"}
            cost = "" if e.cost_usd is None else f", ${e.cost_usd:.2f}"
            warnings = (v.get("slow") for v in e.extensions.values() if isinstance(v, dict))
            slow = "".join(f"\n{warning}" for warning in warnings if warning)
            helped = " with a person's help, not counted" if e.human_steps else ""
            return (
                f"{event.chain} {what}: {words[e.success]}{helped}, {e.steps} steps,"
                f" {e.decisions} decisions, {e.requests} requests{cost}, {e.seconds:.0f} s;"
                f" {line.successes}/{line.judged} so far{slow}"
            )
        case ev.AttemptInvalid():
            start = start_text(event.start)
            return f"{event.chain} start {start}: invalid ({event.error}); {event.then}"
        case ev.AttemptCutOff():
            return (
                f"{event.chain} start {start_text(event.start)}: cut off ({event.reason}); what it"
                " paid for is kept"
            )
        case ev.CostAboveBound():
            return above_bound_sentence(event.chain, event.start, event.requests, event.usd)
        case ev.ChainPaused():
            return (
                f"{event.chain}: the model is down; next try in {duration(event.seconds)}"
                f" ({event.reason})"
            )
        case ev.ChainEnded():
            return (
                f"{event.chain}: stopped ({event.error})"
                if event.error
                else f"{event.chain}: done ({event.why})"
            )
        case ev.Forecast():
            return forecast_sentence(event)
        case ev.Allocated():
            return f"batch {event.batch}, by successes a dollar (80 %): {event.why}"
        case ev.Stopping():
            if event.at_once:
                return f"{event.reason}: stopping at once, {event.running} episodes are cut off"
            if not event.running:
                return f"{event.reason}: no more episodes begin"
            return (
                f"{event.reason}: finishing the {event.running} episodes under way, except those"
                " that only wait; Ctrl-C again cuts them off"
            )
        case ev.CampaignEnded():
            spent = (
                "" if event.spent_usd is None else f", ${event.spent_usd:.2f} spent or held in all"
            )
            return f"{event.run}: {event.why}, {event.episodes} episodes{spent}"
        case _:
            return type(event).__name__


def forecast_sentence(f: ev.Forecast) -> str:
    """The forecast in words."""
    unjudged = f", {f.unjudged} unjudged" if f.unjudged else ""
    head = f"forecast after {f.episodes} episodes ({f.successes} successes{unjudged}): "
    parts = []
    if f.usd_per_success_low is not None:
        if f.usd_per_success_high is None:
            parts.append(f"at least ${f.usd_per_success_low:.2f} a success (95 %)")
        else:
            parts.append(
                _interval(
                    f.usd_per_success, f.usd_per_success_low, f.usd_per_success_high, "a success"
                )
            )
    if f.rest_usd_low is not None and f.rest_usd_high is not None:
        parts.append(_interval(f.rest_usd, f.rest_usd_low, f.rest_usd_high, "for the rest"))
    if f.hours_left is not None:
        parts.append(f"about {duration(3600 * f.hours_left)} left")
    return head + ("; ".join(parts) or "nothing can be said yet")


def _interval(middle: float | None, low: float, high: float, what: str) -> str:
    """Dollars with their interval; without a middle where the bill of some requests is
    not known.
    """
    if middle is None:
        return f"${low:.2f} to ${high:.2f} {what} (95 %; some requests may have been billed)"
    return f"${middle:.2f} {what} (95 %: {low:.2f} to {high:.2f})"
