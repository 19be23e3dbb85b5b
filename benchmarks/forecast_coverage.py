"""How often the 80 % intervals of `capex forecast` hold what then happens, and what `--allocate`
gains.

`python benchmarks/forecast_coverage.py [CHAINS]` simulates chains from known rates, 150 of each
kind unless told otherwise, and campaigns over six tasks with a budget.
`python benchmarks/forecast_coverage.py RUN [RUN ..]` cuts the chains of recorded runs after 5, 10,
15 and 20 attempts, forecasts what the rest will bring and take, and compares; then it spends
budgets over each run's chains, whose attempts are the recorded ones in any order of the chains.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from capex.analysis.forecast import learns
from capex.campaign.allocation import Allocation
from capex.campaign.board import ChainLine
from capex.campaign.prediction import AMOUNTS, History, Prediction, interval
from capex.campaign.status import read_status
from capex.pose import Array
from capex.run.summary import Taken

DRAWS = 500  # a fourth of what the command takes, so that thousands of chains are done in minutes
CUTS = (5, 10, 15, 20)
LONG = 400  # attempts in which a simulated chain has the successes that are asked about
REST = 30  # attempts that follow a cut of a simulated chain
ORDERS = 25  # of the attempts of a recorded chain
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
    futures = Prediction(history, DRAWS).over(len(solved))
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
                needed = interval(Prediction(past, DRAWS).until(NEEDED).episodes)
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
    """Coverage on recorded chains as they went, and with their attempts in random orders, which
    says more about costs and nothing about learning. Cuts of one chain are not independent.
    """
    rows: dict[tuple[str, ...], list[dict[str, bool]]] = {}
    rng = np.random.default_rng(0)
    for history in track(list(recorded(paths)), "recorded chains", transient=True):
        if None in history.solved:
            continue
        shuffled = [_shuffled(history, rng) for _ in range(ORDERS)]
        for kind, chains in (("as it went", [history]), ("in random order", shuffled)):
            for cut in (c for c in CUTS if len(history.solved) >= c + AT_LEAST):
                for h in chains:
                    outcome = held(h.first(cut), list(h.solved[cut:]), h.taken[cut:])
                    rows.setdefault((kind, str(cut)), []).append(outcome)
    rows = dict(sorted(rows.items(), key=lambda row: (row[0][0], int(row[0][1]))))
    for kind in ("as it went", "in random order"):
        rows[kind, "any"] = [o for (k, _), held_ in rows.items() if k == kind for o in held_]
    return table("80 % intervals of the rest of each chain, recorded runs", rows, "chains")


def _shuffled(history: History, rng: np.random.Generator) -> History:
    order = rng.permutation(len(history.solved))
    name, solved = f"{history.name} {order}", [history.solved[k] for k in order]
    return History(name, solved, history.taken[order], history.learns)


def campaign(chains: list[History], budget_usd: float, policy: str, target: int = 50) -> int:
    """Successes for a budget: in turn, allocated, or by somebody who knows what a dollar brings.
    Chains do not depend on each other, so the next attempt of one is what it was.
    """
    names = [f"w--{k}--capex" for k in range(len(chains))]
    lines = {name: ChainLine(name, learns=c.learns) for name, c in zip(names, chains, strict=True)}
    by_name, left = dict(zip(names, chains, strict=True)), budget_usd
    worth = {n: c.successes / float(c.taken[:, 0].sum()) for n, c in by_name.items()}
    with tempfile.TemporaryDirectory() as folder:
        allocation = Allocation(Path(folder), names)
        while open_ := [
            n
            for n in names
            if lines[n].successes < target and lines[n].episodes < len(by_name[n].solved)
        ]:
            name = min(open_, key=lambda n: lines[n].episodes)
            if policy == "known":
                name = max(open_, key=lambda n: worth[n])
            elif policy == "allocated":
                granted = [n for n in open_ if allocation.allows(n, lines[n].episodes)]
                if not granted:
                    allocation.decide({n: lines[n].episodes for n in open_}, lines)
                    continue
                name = min(granted, key=lambda n: lines[n].episodes)
            left -= _next(lines[name], by_name[name])
            if left < 0:  # the attempt that did not fit brought nothing
                return (
                    sum(line.successes for line in lines.values())
                    - lines[name].outcomes[lines[name].episodes - 1]
                )
    return sum(line.successes for line in lines.values())


def _next(line: ChainLine, chain: History) -> float:
    """Make the next attempt of a chain; what it cost."""
    k = line.episodes
    line.add(k, chain.solved[k], 100, k)
    usd, _, seconds, requests = map(float, chain.taken[k])
    price = Decimal(str(usd))
    line.taken[k] = Taken(int(requests), int(requests), (price, price), None, seconds)
    return usd


def _six_tasks(seed: int) -> list[History]:
    rng = np.random.default_rng(seed)
    chains = []
    for k, (rate, won, lost) in enumerate(TASKS):
        solved = rng.random(LONG) < rate
        usd = np.where(solved, won, lost) * np.exp(0.5 * rng.standard_normal(LONG) - 0.125)
        taken = np.stack([usd, usd, 60 * usd, 20 * usd], axis=1)
        chains.append(History(f"task {k}", solved.tolist(), taken))
    return chains


def allocate(title: str, campaigns: list[list[History]], budgets: tuple[int, ...]) -> Table:
    """What a budget brings by policy, the mean over campaigns and its standard error."""
    grid = Table("budget", "in turn", "--allocate", "known", title=title, title_justify="left")
    for budget in track(budgets, "campaigns", transient=True):
        cells = []
        for policy in ("in turn", "allocated", "known"):
            sums = [campaign(chains, budget, policy) for chains in campaigns]
            several = len(sums) > 1
            error = f" +- {np.std(sums, ddof=1) / np.sqrt(len(sums)):.1f}" if several else ""
            cells.append(f"{np.mean(sums):.0f}{error}")
        grid.add_row(f"${budget}", *cells)
    return grid


def main() -> None:
    console, words = Console(), sys.argv[1:]
    if words and not words[0].isdigit():
        paths = [Path(word) for word in words]
        console.print(cut_runs(paths))
        for path in paths:
            chains = list(recorded([path]))
            if len(chains) > 1 and all(c.priced for c in chains):
                title = f"successes of {path.name} for a budget, as recorded"
                console.print(allocate(title, [chains], (15, 30, 60, 120)))
        return
    chains = int(words[0]) if words else 150
    console.print(simulate(chains))
    title = f"demonstrations of {len(TASKS)} simulated tasks (at most 50 of each) for a budget"
    console.print(allocate(title, [_six_tasks(s) for s in range(chains // 15)], (40, 80, 160)))


if __name__ == "__main__":
    main()
