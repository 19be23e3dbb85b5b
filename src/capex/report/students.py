"""What students achieved: success by task, source of demonstrations and policy over training seeds,
with the tests of the paper.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capex.report.compare import Tally
from capex.report.rows import RunData
from capex.report.sources import LAST
from capex.run.stats import Stratified, cochran_mantel_haenszel, fisher
from capex.run.summary import HEARD, Summary

MEAN = "mean"  # in what a record says of an instruction's embedding
# What stands beside every source: the network with fresh weights, and what fine-tuning began from.
UNTRAINED, UNADAPTED = FLOORS = ("untrained", "unadapted")


@dataclass(frozen=True)
class Cell:
    """The rollouts of one trained policy on one task."""

    task: str  # WORLD:TASK
    source: str  # whose demonstrations, or one of FLOORS
    policy: str
    initialisation: str
    seed: int
    budget: int  # training steps
    demonstrations: int
    makers: str  # the arms that made them
    tally: Tally


@dataclass(frozen=True)
class Score:
    """One task, source, policy and budget over training seeds; the tally pools their rollouts."""

    mean: float
    deviation: float | None  # None with one seed
    seeds: int
    demonstrations: int
    tally: Tally


@dataclass(frozen=True)
class Line:
    """One task of a policy at a budget: every source, and Fisher's exact test of each other source
    against the first.
    """

    task: str
    scores: Mapping[str, Score]
    p: Mapping[str, float]
    floors: Mapping[str, Tally]  # by FLOORS: what was solved without these demonstrations


@dataclass(frozen=True)
class Block:
    """One policy with one initialisation at one budget: its tasks, and Cochran-Mantel-Haenszel
    across them, by the other source.
    """

    policy: str
    initialisation: str
    budget: int
    lines: tuple[Line, ...]
    across: Mapping[str, Stratified]

    @property
    def averages(self) -> dict[str, float]:
        """The mean over tasks of every source that has them all."""
        return {
            name: statistics.fmean(line.scores[name].mean for line in self.lines)
            for name in dict.fromkeys(s for line in self.lines for s in line.scores)
            if all(name in line.scores for line in self.lines)
        }

    def floor(self, name: str) -> float | None:
        """The mean of a floor over tasks; None where a task lacks it."""
        return _mean_floor([line.floors.get(name) for line in self.lines])


def cells(data: RunData) -> list[Cell]:
    """Every policy whose rollouts the runs hold; a start that two runs have counts once."""
    held: dict[_Key, dict[tuple[int, int], bool]] = defaultdict(dict)
    for e in data.episodes:
        if e.student is not None and e.success is not None:
            held[_key(e)].setdefault((e.start, e.seed), e.success)
    return [
        Cell(*key, Tally(sum(starts.values()), len(starts))) for key, starts in sorted(held.items())
    ]


_Key = tuple[str, str, str, str, int, int, int, str]  # a Cell without its tally


def _key(e: Summary) -> _Key:
    student = e.student or {}
    labels, makers = student.get("labels") or {}, ", ".join(student.get("sources") or ("unknown",))
    trained_on = str(labels.get("source") or makers)
    source = next((name for name in FLOORS if student.get(name)), trained_on)
    policy, began = (
        str(labels.get("policy") or student.get("policy", "")),
        str(student.get("initialisation", "")),
    )
    seed, steps, demonstrations = (int(student.get(k, 0)) for k in ("seed", "steps", "episodes"))
    return f"{e.world}:{e.task}", source, policy, began, seed, steps, demonstrations, makers


def unheard(data: RunData) -> dict[str, Tally]:
    """By policy, how many of its rollouts had an instruction that it saw as the mean of those it
    knew: a learned table has nothing else for it.
    """
    rollouts: dict[str, list[str]] = defaultdict(list)
    for e in data.episodes:
        if e.student is not None and HEARD in e.student:
            rollouts[_key(e)[2]].append(str(e.student[HEARD]))
    counts = {name: sum(MEAN in how for how in heard) for name, heard in rollouts.items()}
    return {name: Tally(count, len(rollouts[name])) for name, count in counts.items() if count}


def source_names(found: Sequence[Cell]) -> list[str]:
    """Whose demonstrations were trained on: privileged sources last, as everywhere in
    the report.
    """
    return sorted(
        {c.source for c in found if c.source not in FLOORS}, key=lambda name: (name in LAST, name)
    )


def blocks(found: Sequence[Cell]) -> list[Block]:
    """The paper's table: by policy and budget, then task, then source."""
    names = source_names(found)
    groups: dict[tuple[str, str, int], dict[str, dict[str, list[Cell]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for cell in found:
        if cell.source not in FLOORS:
            groups[cell.policy, cell.initialisation, cell.budget][cell.task][cell.source].append(
                cell
            )
    below: dict[tuple[str, str], dict[str, Tally]] = defaultdict(dict)
    for cell in (c for c in found if c.source in FLOORS):
        by_name = below[cell.policy, cell.task]
        held = by_name.get(cell.source, Tally(0, 0))
        by_name[cell.source] = Tally(held.successes + cell.tally.successes, held.n + cell.tally.n)
    return [_block(*key, tasks, names, below) for key, tasks in sorted(groups.items())]


def _block(
    policy: str,
    began: str,
    budget: int,
    tasks: Mapping[str, Mapping[str, Sequence[Cell]]],
    names: Sequence[str],
    below: Mapping[tuple[str, str], Mapping[str, Tally]],
) -> Block:
    lines, strata = [], defaultdict(list)
    for task, by_source in sorted(tasks.items()):
        scores = {name: _score(by_source[name]) for name in names if name in by_source}
        p = {}
        for other in names[1:]:
            if names[0] in scores and other in scores:
                a, b = scores[names[0]].tally, scores[other].tally
                p[other] = fisher(a.successes, a.n, b.successes, b.n)
                strata[other].append((a.successes, a.n, b.successes, b.n))
        lines.append(Line(task, scores, p, below.get((policy, task), {})))
    across = {other: cochran_mantel_haenszel(tables) for other, tables in strata.items()}
    return Block(policy, began, budget, tuple(lines), across)


def _score(group: Sequence[Cell]) -> Score:
    rates = [c.tally.successes / c.tally.n for c in group]
    deviation = statistics.stdev(rates) if len(rates) > 1 else None
    pooled = Tally(sum(c.tally.successes for c in group), sum(c.tally.n for c in group))
    most = max(c.demonstrations for c in group)
    return Score(statistics.fmean(rates), deviation, len(group), most, pooled)


@dataclass(frozen=True)
class CurvePoint:
    """Success of a policy trained on one source for one budget, or on so many demonstrations: the
    mean over tasks, with the interval of the pooled rollouts.
    """

    amount: int  # training steps or demonstrations
    mean: float
    low: float
    high: float
    tasks: int


Curves = Mapping[str, Mapping[str, Sequence[CurvePoint]]]  # by panel and line


def _point(amount: int, scores: Sequence[Score]) -> CurvePoint:
    pooled = Tally(sum(s.tally.successes for s in scores), sum(s.tally.n for s in scores))
    low, high = pooled.interval or (math.nan, math.nan)
    return CurvePoint(amount, statistics.fmean(s.mean for s in scores), low, high, len(scores))


def panel_name(block: Block, found: Sequence[Block]) -> str:
    """What a figure calls a policy: by its initialisation too where its name has several."""
    several = len({b.initialisation for b in found if b.policy == block.policy}) > 1
    return f"{block.policy} ({block.initialisation})" if several else block.policy


def _shared_lines(block: Block, found: Sequence[Block]) -> list[Line]:
    """The block's tasks that the policy has at every budget, so that like is compared with like;
    all of them where there is none.
    """
    name = panel_name(block, found)
    tasks = [{line.task for line in b.lines} for b in found if panel_name(b, found) == name]
    shared = set.intersection(*tasks)
    return [line for line in block.lines if line.task in shared or not shared]


def floors(found: Sequence[Block], name: str) -> dict[str, float]:
    """What a floor solves, by policy: the mean over the same tasks as the trained ones', so none
    where a task lacks it.
    """
    by_panel: dict[str, dict[str, Tally | None]] = defaultdict(dict)
    for block in found:
        lines = _shared_lines(block, found)
        by_panel[panel_name(block, found)] |= {line.task: line.floors.get(name) for line in lines}
    means = {panel: _mean_floor(list(tasks.values())) for panel, tasks in by_panel.items()}
    return {panel: mean for panel, mean in means.items() if mean is not None}


def _mean_floor(tallies: Sequence[Tally | None]) -> float | None:
    rates = [t.successes / t.n for t in tallies if t is not None]
    return statistics.fmean(rates) if rates and len(rates) == len(tallies) else None


def curves(found: Sequence[Block]) -> Curves:
    """Success against training budget by policy and source, over the tasks of all its budgets."""
    drawn: dict[str, dict[str, list[CurvePoint]]] = defaultdict(lambda: defaultdict(list))
    for block in found:
        name, lines = panel_name(block, found), _shared_lines(block, found)
        for source in dict.fromkeys(s for line in lines for s in line.scores):
            scores = [line.scores[source] for line in lines if source in line.scores]
            drawn[name][source].append(_point(block.budget, scores))
    return drawn


def data_curves(found: Sequence[Cell]) -> Curves:
    """Success against the number of demonstrations, by policy, budget and task, and by who made
    them; only where somebody made several numbers of them. Seeds are pooled.
    """
    trained = [c for c in found if c.source not in FLOORS]
    began: dict[str, set[str]] = defaultdict(set)
    for cell in trained:
        began[cell.policy].add(cell.initialisation)
    groups: dict[str, dict[str, dict[int, list[Cell]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for cell in trained:
        name = (
            f"{cell.policy} ({cell.initialisation})" if len(began[cell.policy]) > 1 else cell.policy
        )
        title = f"{name}, {cell.budget:,} steps: {cell.task}"
        groups[title][cell.makers][cell.demonstrations].append(cell)
    return {
        title: {
            makers: [_point(amount, [_score(own)]) for amount, own in sorted(amounts.items())]
            for makers, amounts in sorted(by_makers.items(), key=lambda item: item[0] in LAST)
        }
        for title, by_makers in groups.items()
        if any(len(amounts) > 1 for amounts in by_makers.values())
    }
