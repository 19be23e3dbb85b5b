"""How often the 80 % intervals of `capex forecast` hold what then happens, and what `--allocate`
gains.

`python benchmarks/forecast_coverage.py [CHAINS]` simulates chains from known rates, 400 of each
kind unless told otherwise, and campaigns over six tasks with a budget.
`python benchmarks/forecast_coverage.py RUN [RUN ..]` cuts the chains of recorded runs after 5, 10,
15 and 20 attempts, forecasts what the rest will bring and take, and compares.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from capex.campaign.allocation import FIRST, Allocation
from capex.campaign.board import ChainLine
from capex.campaign.forecast import learns
from capex.campaign.prediction import AMOUNTS, History, Prediction, interval
from capex.campaign.status import read_status
from capex.pose import Array
from capex.run.accounts import Taken

CUTS = (5, 10, 15, 20)
LONG = 400  # attempts in which a simulated chain has the successes that are asked about
REST = 30  # attempts that follow a cut of a simulated chain
AT_LEAST = 5  # attempts that must follow a cut of a recorded one
MEASURES = ("successes", "dollars", "minutes", "requests", "attempts needed")
NEEDED = 10  # further successes of a simulated chain
Rate = Callable[[int, int], float]  # attempts and successes before -> success rate
CONSTANT: dict[str, Rate] = {
    f"constant {rate:.0%}": lambda i, won, rate=rate: rate for rate in (0.1, 0.3, 0.6, 0.9)
}
LEARNING: dict[str, Rate] = {
    "30 %, 80 % after the first success": lambda i, won: 0.8 if won else 0.3,
    "20 % to 90 % slowly (c = 10)": lambda i, won: 0.9 - 0.7 * float(np.exp(-i / 10)),
}
# Success rate, dollars of a success and of a failure.
TASKS = [(0.9, 0.3, 0.8), (0.8, 0.5, 1.2), (0.6, 0.4, 1.0), (0.4, 0.5, 1.5), (0.2, 0.8, 2.0)]
TASKS.append((0.05, 1.0, 2.5))


def simulated(rate: Rate, count: int, rng: np.random.Generator) -> tuple[list[bool], Array]:
    """Outcomes of a chain and what its attempts took: a failure three times a success."""
    solved: list[bool] = []
    won = 0
    for i in range(count):
        solved.append(bool(rng.random() < rate(i, won)))
        won += solved[-1]
    usd = np.where(solved, 0.3, 0.9) * np.exp(0.5 * rng.standard_normal(count))
    return solved, np.stack([usd, usd, 60 * usd, 20 * usd], axis=1)


def held(history: History, solved: list[bool | None], taken: Array) -> dict[str, bool]:
    """Whether the forecast after a history holds what the following attempts brought and took."""
    futures = Prediction(history).over(len(solved))
    true = dict(zip(AMOUNTS, taken.sum(axis=0), strict=True))
    drawn = dict(zip(AMOUNTS, futures.taken.T, strict=True))
    pairs = {
        "successes": (futures.successes, sum(s is True for s in solved)),
        "dollars": (drawn["usd"], true["usd"]),
        "minutes": (drawn["seconds"], true["seconds"]),
        "requests": (drawn["requests"], true["requests"]),
    }
    inside = {}
    for name, (draws, value) in pairs.items():
        if not np.isnan(value):
            i = interval(draws)
            inside[name] = bool(i.low <= value <= i.high)
    return inside


def table(title: str, rows: dict[tuple[str, ...], list[dict[str, bool]]], first: str) -> Table:
    """Shares of intervals that held, by kind and cut."""
    told = {name for outcomes in rows.values() for o in outcomes for name in o}
    shown = [name for name in MEASURES if name in told]
    grid = Table(first, "after", "forecasts", *shown, title=title, title_justify="left")
    for (kind, cut), outcomes in rows.items():
        cells = []
        for name in shown:
            inside = [o[name] for o in outcomes if name in o]
            cells.append(f"{100 * np.mean(inside):.0f} %" if inside else "")
        grid.add_row(kind, cut, str(len(outcomes)), *cells)
    return grid


def simulate(chains: int) -> Table:
    """Coverage on chains from known rates, those that may learn forecast as such."""
    rng = np.random.default_rng(0)
    rows: dict[tuple[str, ...], list[dict[str, bool]]] = {}
    kinds = [(k, r, False) for k, r in CONSTANT.items()]
    kinds += [(f"{k}, with memory", CONSTANT[k], True) for k in ("constant 60%",)]
    kinds += [(k, r, True) for k, r in LEARNING.items()]
    for kind, rate, remembers in track(kinds, "simulated chains", transient=True):
        for cut in CUTS[:2] + CUTS[3:]:
            for number in range(chains):
                solved, taken = simulated(rate, cut + LONG, rng)
                past = History(f"{kind} {number}", solved[:cut], taken[:cut], remembers)
                rest = slice(cut, cut + REST)
                outcome = held(past, list(solved[rest]), taken[rest])
                needed = interval(Prediction(past).until(NEEDED).episodes)
                true = int(np.argmax(np.cumsum(solved[cut:]) == NEEDED)) + 1
                inside = needed.low <= true <= needed.high
                in_proportion = ("minutes", "requests")  # to dollars: they tell no more
                kept = {k: v for k, v in outcome.items() if k not in in_proportion}
                rows.setdefault((kind, str(cut)), []).append(kept | {"attempts needed": inside})
    title = (
        f"80 % intervals: the next {REST} attempts of simulated chains, and attempts until"
        f" {NEEDED} more successes"
    )
    return table(title, rows, "success rate")


def recorded(paths: list[Path]) -> Iterator[History]:
    """The chains of runs, as the forecast reads them."""
    for path in paths:
        status = read_status(path)
        for chain in status.run.chains:
            line = status.board.lines[chain.name]
            line.learns = learns(status.run, chain.arm)
            history = line.history
            yield History(f"{path} {chain.name}", history.solved, history.taken, history.learns)


def cut_runs(paths: list[Path]) -> Table:
    """Coverage on recorded chains; the cuts of one chain are not independent of each other."""
    rows: dict[tuple[str, ...], list[dict[str, bool]]] = {}
    for history in recorded(paths):
        for cut in CUTS:
            if len(history.solved) >= cut + AT_LEAST and None not in history.solved:
                outcome = held(history.first(cut), list(history.solved[cut:]), history.taken[cut:])
                rows.setdefault(("recorded", str(cut)), []).append(outcome)
    rows["all", ""] = [outcome for outcomes in rows.values() for outcome in outcomes]
    return table("80 % intervals of the rest of each chain, recorded runs", rows, "chains")


def campaign(budget_usd: float, target: int, policy: str, seed: int) -> Counter[str]:
    """Successes per task for a budget: in turn, allocated, or by somebody who knows the rates."""
    rng = np.random.default_rng(seed)
    lines = {f"w--task{k}--capex": ChainLine(f"w--task{k}--capex") for k in range(len(TASKS))}
    names, left = list(lines), budget_usd
    by_worth = sorted(names, key=lambda n: -_worth(TASKS[names.index(n)]))
    with tempfile.TemporaryDirectory() as folder:
        allocation = Allocation(Path(folder), names)
        while left > 0:
            open_ = [n for n in names if lines[n].successes < target]
            if not open_:
                break
            if policy == "in turn":
                name = min(open_, key=lambda n: lines[n].episodes)
            elif policy == "known rates":
                name = next(n for n in by_worth if n in open_)
            else:
                granted = [n for n in open_ if allocation.allows(n, lines[n].episodes)]
                if not granted:
                    allocation.decide({n: lines[n].episodes for n in open_}, lines)
                    continue
                name = min(granted, key=lambda n: lines[n].episodes)
            left -= _attempt(lines[name], TASKS[names.index(name)], rng)
    return Counter({n: line.successes for n, line in lines.items()})


def _worth(task: tuple[float, float, float]) -> float:
    rate, won, lost = task
    return rate / (rate * won + (1 - rate) * lost)


def _attempt(line: ChainLine, task: tuple[float, float, float], rng: np.random.Generator) -> float:
    """One more attempt on a line; what it cost."""
    rate, won, lost = task
    solved = bool(rng.random() < rate)
    usd = float((won if solved else lost) * np.exp(0.5 * rng.standard_normal() - 0.125))
    start = line.episodes
    line.add(start, solved, 100, start)
    price = Decimal(str(usd))
    line.taken[start] = Taken(10, 10, (price, price), None, 60.0)
    return usd


def allocate(campaigns: int, target: int = 50) -> Table:
    """What a budget brings by policy, the mean over campaigns and the standard error."""
    grid = Table("budget", "in turn", "--allocate", "known rates", title_justify="left")
    grid.title = f"demonstrations (up to {target} of each of {len(TASKS)} tasks), simulated"
    for budget in track((40, 80, 160), "campaigns", transient=True):
        cells = []
        for policy in ("in turn", "allocated", "known rates"):
            sums = [campaign(budget, target, policy, s).total() for s in range(campaigns)]
            error = np.std(sums, ddof=1) / np.sqrt(len(sums))
            cells.append(f"{np.mean(sums):.0f} +- {error:.1f}")
        grid.add_row(f"${budget}", *cells)
    return grid


def main() -> None:
    console, words = Console(), sys.argv[1:]
    if words and not words[0].isdigit():
        console.print(cut_runs([Path(word) for word in words]))
        return
    chains = int(words[0]) if words else 400
    console.print(simulate(chains))
    console.print(allocate(max(4, chains // 20)))
    console.print(f"--allocate begins with {FIRST} attempts at each task")


if __name__ == "__main__":
    main()
