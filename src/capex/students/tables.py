"""What a study found: success by task, source and policy over seeds, the tests of the paper, and the figure of success against budget."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capex.store import find_run, read_json, write_bytes, write_json

PRIMARY_BUDGET = 20_000


@dataclass(frozen=True)
class Cell:
    """One trained policy's rollouts."""

    task: str
    source: str
    policy: str
    seed: int
    budget: int
    successes: int
    rollouts: int
    demonstrations: int
    initialisation: str
    stand_in: bool

    @property
    def rate(self) -> float:
        """Share of successes."""
        return self.successes / self.rollouts if self.rollouts else math.nan


def cells(run: Path) -> list[Cell]:
    """Every trained or untrained policy whose rollouts a run directory holds."""
    found = []
    for chain in find_run(run).chains():
        records = [read_json(chain.episode(i) / "record.json") for i in chain.finished()]
        records = [r for r in records if "student" in r]
        if not records:
            continue
        first = records[0]
        student: Mapping[str, Any] = first["student"]
        labels = student.get("labels", {})
        found.append(
            Cell(
                task=f"{first['world']}:{first['task']}",
                source="untrained" if student.get("untrained") else labels.get("source", ",".join(student.get("sources", []))),
                policy=labels.get("policy", student["policy"]),
                seed=int(student.get("seed", 0)),
                budget=int(student.get("steps", 0)),
                successes=sum(bool(r["success"]) for r in records),
                rollouts=len(records),
                demonstrations=int(student.get("episodes", 0)),
                initialisation=student.get("initialisation", ""),
                stand_in=any(r.get("stand_in") for r in records),
            )
        )
    return found


def chain_summary(run: Path) -> list[tuple[str, str, str, str, str]]:
    """One row per chain of a run directory: successes, rate, Wilson's interval, median steps of the successes."""
    from capex.stats import wilson

    rows = []
    for chain in find_run(run).chains():
        records = [read_json(chain.episode(i) / "record.json") for i in chain.finished()]
        solved = [r["steps"] for r in records if r["success"]]
        low, high = wilson(len(solved), len(records))
        middle = f"{statistics.median(solved):.0f}" if solved else "-"
        rate = f"{len(solved) / len(records):.2f}" if records else "-"
        rows.append((chain.path.name, f"{len(solved)}/{len(records)}", rate, f"{low:.2f} .. {high:.2f}", middle))
    return rows


@dataclass(frozen=True)
class Row:
    """One task and policy at one budget, two sources side by side."""

    task: str
    policy: str
    budget: int
    by_source: Mapping[str, tuple[float, float, int, int]]  # source -> mean, deviation over seeds, successes, rollouts
    p_value: float  # Fisher's exact test on pooled rollouts; nan without two sources


def compare(found: Sequence[Cell], sources: tuple[str, str]) -> list[Row]:
    """Rows by task, policy and budget; the test compares the two sources."""
    from capex.stats import fisher

    groups: dict[tuple[str, str, int], dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in found:
        if cell.source in sources:
            groups[(cell.task, cell.policy, cell.budget)][cell.source].append(cell)
    rows = []
    for (task, policy, budget), held in sorted(groups.items()):
        by_source = {}
        for source, group in held.items():
            rates = [c.rate for c in group]
            deviation = statistics.stdev(rates) if len(rates) > 1 else math.nan
            by_source[source] = (statistics.fmean(rates), deviation, sum(c.successes for c in group), sum(c.rollouts for c in group))
        p = math.nan
        if all(s in by_source for s in sources):
            (_, _, a, n), (_, _, b, m) = (by_source[s] for s in sources)
            p = fisher(a, n, b, m)
        rows.append(Row(task, policy, budget, by_source, p))
    return rows


def across_tasks(rows: Sequence[Row], sources: tuple[str, str]) -> dict[tuple[str, int], float]:
    """Cochran-Mantel-Haenszel over the tasks of each policy and budget that both sources have; nan with no information."""
    from capex.stats import cochran_mantel_haenszel

    strata: dict[tuple[str, int], list[tuple[int, int, int, int]]] = defaultdict(list)
    for row in rows:
        if all(s in row.by_source for s in sources):
            (_, _, a, n), (_, _, b, m) = (row.by_source[s] for s in sources)
            strata[(row.policy, row.budget)].append((a, n, b, m))
    return {key: cochran_mantel_haenszel(tables).p for key, tables in strata.items()}


def markdown(found: Sequence[Cell], sources: tuple[str, str]) -> str:
    """The table of the paper, with what each row's policies began from and whether the data is a stand-in's."""
    rows = compare(found, sources)
    counts = {(c.task, c.policy): c.demonstrations for c in found}
    began = {c.policy: c.initialisation for c in found}
    lines = []
    if any(c.stand_in for c in found):
        lines.append("The demonstrators are stand-ins: the numbers show that the pipeline works, not what a model or a human would give.\n")
    head = ["task (demonstrations)", "policy (initialisation)", "steps", *sources, "Fisher's p"]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        best = max((v[0] for v in row.by_source.values()), default=math.nan)
        values = [_value(row.by_source.get(s), best) for s in sources]
        shown_p = "-" if math.isnan(row.p_value) else f"{row.p_value:.3f}"
        name = f"{row.task} ({counts[(row.task, row.policy)]})"
        lines.append("| " + " | ".join([name, f"{row.policy} ({began[row.policy]})", f"{row.budget:,}", *values, shown_p]) + " |")
    for (policy, budget), p in across_tasks(rows, sources).items():
        value = "no information" if math.isnan(p) else f"p = {p:.3f}"
        lines.append(f"\nAcross tasks, {policy} at {budget:,} steps, Cochran-Mantel-Haenszel: {value}.")
    fresh = [c for c in found if c.source == "untrained"]
    for cell in fresh:
        lines.append(f"\nUntrained {cell.policy} on the same starts of {cell.task}: {cell.successes}/{cell.rollouts}.")
    return "\n".join(lines) + "\n"


def _value(held: tuple[float, float, int, int] | None, best: float) -> str:
    if held is None:
        return "-"
    mean, deviation, successes, rollouts = held
    text = f"{mean:.2f}" + ("" if math.isnan(deviation) else f" ± {deviation:.2f}")
    return f"{'**' + text + '**' if mean == best else text} ({successes}/{rollouts})"


def figure(found: Sequence[Cell], sources: tuple[str, str], out: Path) -> Path:
    """Success against training budget, a panel per policy, averaged over tasks; whiskers are 95% Wilson intervals of pooled rollouts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from capex.stats import wilson

    policies = sorted({c.policy for c in found if c.source in sources})
    drawn = Figure(figsize=(4 * max(1, len(policies)), 3.4), layout="constrained")
    FigureCanvasAgg(drawn)
    panels = drawn.subplots(1, max(1, len(policies)), sharey=True, squeeze=False)[0]
    for panel, policy in zip(panels, policies, strict=False):
        for source, colour in zip(sources, ("#1f6f8b", "#c8553d"), strict=True):
            mine = [c for c in found if c.policy == policy and c.source == source]
            budgets = sorted({c.budget for c in mine})
            means, below, above = [], [], []
            for budget in budgets:
                at = [c for c in mine if c.budget == budget]
                mean = statistics.fmean(_task_rates(at))
                low, high = wilson(sum(c.successes for c in at), sum(c.rollouts for c in at))
                means.append(mean)
                below.append(max(0.0, mean - low))
                above.append(max(0.0, high - mean))
            panel.errorbar(budgets, means, yerr=(below, above), marker="o", capsize=3, color=colour, label=source)
        panel.set(title=policy, xlabel="training steps", ylim=(-0.02, 1.02))
        panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("success")
    panels[0].legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(out, dpi=120)
    return out


def _task_rates(group: Iterable[Cell]) -> list[float]:
    by_task: dict[str, list[float]] = defaultdict(list)
    for cell in group:
        by_task[cell.task].append(cell.rate)
    return [statistics.fmean(rates) for rates in by_task.values()]


def study_tables(out: Path) -> list[Path]:
    """Write table.md, cells.json and budget.png of a study's folder."""
    found = cells(out / "rollouts")
    sources = tuple(read_json(out / "study.json")["sources"])
    pair = (sources[0], sources[1]) if len(sources) > 1 else (sources[0], sources[0])
    write_bytes(out / "table.md", markdown(found, pair).encode())
    write_json(out / "cells.json", {"cells": [c.__dict__ for c in found]})
    return [out / "table.md", figure(found, pair, out / "budget.png")]
