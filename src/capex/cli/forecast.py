"""`capex forecast`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from rich.markup import escape
from rich.table import Table
from tyro.conf import FlagCreatePairsOff, Positional, arg

from capex.cli.console import console
from capex.cli.help import Examples
from capex.cli.tables import FittedTable

if TYPE_CHECKING:
    from capex.analysis.forecast import RunForecast
    from capex.campaign.prediction import Draws, Interval

COLUMNS = ("chain", "success", "rate", "episodes", "dollars", "minutes", "requests", "per $")
FEWER = ("chain", "success", "rate", "dollars", "minutes")  # on a narrow terminal


@dataclass(frozen=True)
class ForecastCommand:
    """What a run still needs until every task has enough demonstrations: episodes, dollars,
    minutes and requests with 80 % intervals, and where the next dollar brings most.
    """

    EXAMPLES: ClassVar[Examples] = {
        "Fifty demonstrations of every task": "capex forecast runs/first --demonstrations 50",
        "What $200 more would bring": ("capex forecast runs/first --demonstrations 50 --usd 200"),
    }

    path: Positional[Annotated[Path, arg(metavar="RUN")]]
    """The run directory."""
    demonstrations: Annotated[int, arg(metavar="N", help_behavior_hint="")] = 50
    """Successes that every chain is to have, those it has included (default 50)."""
    usd: Annotated[float | None, arg(metavar="USD", help_behavior_hint="")] = None
    """Also say what so many more dollars would bring, spent where they bring most and with the
    tasks in turn (default: nothing is said)."""
    json: Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")] = False
    """Print one JSON object instead of a table."""

    def run(self) -> int:
        """Read the run directory, draw futures, print them."""
        from capex.analysis.forecast import forecast

        made = forecast(self.path, self.demonstrations, self.usd)
        if self.json:
            sys.stdout.write(json.dumps(_finite(made.as_json())) + "\n")
            return 0
        console.print(_table(made))
        for line in sentences(made):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        return 0


def sentences(made: RunForecast) -> list[str]:
    """What the table does not say: learning, the next dollar, the money that was asked about."""
    from capex.analysis.forecast import LEARNS
    from capex.campaign.prediction import interval

    lines = []
    if changed := [c for c in made.chains if c.learning > LEARNS]:
        listed = ", ".join(f"{c.task} {c.method} ({100 * c.learning:.0f} %)" for c in changed)
        lines.append(f"the success rate has risen over the chain: {listed}")
    if made.untried:
        lines.append(f"without a judged attempt, so not forecast: {', '.join(made.untried)}")
    best = made.best
    if best is None:
        lines.append(f"every chain has its {made.demonstrations} demonstrations")
    else:
        unit = "hour" if best.per_dollar is None else "dollar"
        worth = _span(interval(best.worth), digits=2)
        lines.append(f"the next {unit} brings most in {best.task} {best.method}: {worth} successes")
    if (s := made.spent) is not None:
        lines.append(
            f"${s.usd:g} more bring {_span(s.allocated)} of the {s.lacking} that are lacking if"
            f" they are spent where they bring most, {_span(s.in_turn)} if the tasks take turns"
            " (`capex collect --allocate` aims at the first)"
        )
        lines += [
            f"  {' '.join(name.split('--')[1:])}: ${_span(usd, digits=2)} for {_span(won)}"
            for name, (usd, won) in s.shares.items()
            if usd.high > 0
        ]
    return lines


def _table(made: RunForecast) -> FittedTable:
    rows = [_row(f"{c.task} {c.method}", c.draws) for c in made.chains]
    for row, c in zip(rows, made.chains, strict=True):
        row["success"] = f"{c.successes}/{c.episodes}"
        row["rate"] = f"{_percent(c.rate)} %"
        row["per $"] = _worth(c)
    methods = made.of_methods()
    totals = [_row(f"all tasks {name}", draws) for name, draws in methods.items()]
    if len(made.chains) == len(methods):
        totals = []
    stand_in = " by a stand-in" if made.stand_in else ""
    title = f"{made.run}: until {made.demonstrations} demonstrations a task{stand_in}"
    caption = "still needed: the middle and an 80 % interval; minutes of attempts, one at a time"
    grids = []
    for columns in (COLUMNS, FEWER):
        grid = Table(title=escape(title), title_justify="left", caption=caption)
        grid.caption_justify = "left"
        shown = [name for name in columns if any(row.get(name) for row in rows)]
        for name in shown:
            side: Any = "left" if name == "chain" else "right"
            grid.add_column(name, justify=side, no_wrap=name != "chain", overflow="fold")
        for number, row in enumerate([*rows, *totals]):
            cells = (row.get(name, "") for name in shown)
            last = number == len(rows) - 1
            grid.add_row(*cells, end_section=last, style="bold" if row in totals else "")
        grids.append(grid)
    return FittedTable(*grids)


def _worth(c: Any) -> str:
    from capex.campaign.prediction import interval

    return "" if c.per_dollar is None or not c.lacks else _span(interval(c.per_dollar), digits=2)


def _row(name: str, draws: Draws) -> dict[str, str]:
    import numpy as np

    from capex.campaign.prediction import interval

    known, most, seconds, requests = draws.taken.T
    return {
        "chain": escape(name),
        "episodes": _span(interval(draws.episodes)),
        "dollars": "" if np.isnan(known).any() else _span(interval(known, most), digits=2),
        "minutes": _span(interval(seconds / 60)),
        "requests": _span(interval(requests)),
    }


def _percent(rate: Interval) -> str:
    return f"{100 * rate.middle:.0f} ({100 * rate.low:.0f} to {100 * rate.high:.0f})"


def _span(i: Interval, digits: int = 0) -> str:
    """An interval in words, without one where both ends read the same."""
    low, middle, high = (number(x, digits) for x in (i.low, i.middle, i.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def number(value: float, digits: int = 0) -> str:
    """A number for people: large ones lose what nobody could know."""
    for unit, size in (("M", 1e6), ("k", 1e4)):
        if value >= size:
            return "many" if value >= 1e9 else f"{value / (1e3 if unit == 'k' else 1e6):.0f}{unit}"
    return f"{value:.{digits if value < 100 else 0}f}"


def _finite(value: Any) -> Any:
    """For JSON, which has no infinity: null instead."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and abs(value) == float("inf") else value
