"""What each figure shows. Functions from numbers to `Figure`; nothing here reads a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from capex.method.calibrator import FEATURES, PRIOR_MEAN
from capex.report.calibration import (
    CUTS_AT_LEAST,
    Calibration,
    Judged,
    Swept,
    Truncated,
    WeightPath,
)
from capex.report.compare import Tally, TaskKey, verdicts
from capex.report.costs import KINDS, Bill, DecisionCurve
from capex.report.experience import CurvePoint, Experience
from capex.report.figures import (
    INK,
    KIND_COLOURS,
    LINE,
    MUTED,
    PAPER,
    SOURCE_COLOURS,
    Figure,
    Key,
    Panel,
    colour,
)
from capex.report.sources import Source, plain
from capex.report.students import BudgetPoint
from capex.report.tables import number
from capex.run.stats import wilson

TASKS_IN_A_PANEL = 6
STARTS_SHOWN = 60
SMALL_IN = 2.15
ARM_CHARACTERS, NAME_CHARACTERS = 16, 44  # what fits beside and above the marks
DASHES = (("line", "-"), ("dashes", "--"), ("dots", ":"), ("dashdot", "-."))
Draw = Callable[[Axes], None]


def source_keys(sources: Sequence[Source], style: str = "box") -> tuple[Key, ...]:
    """One legend entry per source."""
    return tuple(Key(s.label, colour(s), style) for s in sources)


def bars(
    groups: Sequence[tuple[str, Sequence[Tally | None]]], palette: Sequence[str]
) -> tuple[Draw, float]:
    """Horizontal bars of success with Wilson whiskers, a group of them per name; the function and
    the height it needs in inches.
    """
    thick, gap = 0.8, 1.1

    def draw(ax: Axes) -> None:
        y = 0.0
        for name, tallies in groups:
            ax.text(0, y - 0.15, plain(name, NAME_CHARACTERS), ha="left", va="bottom", fontsize=8)
            for tally, own in zip(tallies, palette, strict=True):
                y += 1
                if tally is None or tally.share is None or tally.interval is None:
                    ax.text(
                        0.01, y - 0.5, "no data", ha="left", va="center", color=MUTED, fontsize=6.5
                    )
                    continue
                low, high = tally.interval
                ax.barh(y - 0.5, tally.share, height=thick, color=own, linewidth=0)
                ax.plot(
                    [low, high], [y - 0.5] * 2, color=PAPER, linewidth=2.0, solid_capstyle="butt"
                )
                ax.plot([low, high], [y - 0.5] * 2, color=INK, linewidth=0.9, solid_capstyle="butt")
                ax.text(
                    1.03,
                    y - 0.5,
                    f"{tally.successes}/{tally.n}",
                    ha="left",
                    va="center",
                    fontsize=7,
                    color=INK,
                    clip_on=False,
                )
            y += gap
        ax.set_ylim(y - gap + 0.4, -0.9)
        ax.set_xlim(0, 1)
        ax.set_yticks([])
        ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25", "50", "75", "100 %"])
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        ax.set_axisbelow(True)

    lines = sum(len(t) for _, t in groups) + gap * len(groups)
    return draw, 0.155 * lines + 0.45


def success_figure(
    sources: Sequence[Source],
    overall: Sequence[Tally],
    families: Mapping[str, Sequence[Tally | None]],
    tasks: Mapping[TaskKey, Sequence[Tally | None]],
    family_of: Mapping[TaskKey, str],
) -> Figure:
    """Success per task and per family."""
    palette = [colour(s) for s in sources]
    panels = []
    together = [("All tasks", overall), *(families.items() if len(families) > 1 else ())]
    draw, height = bars(together, palette)
    panels.append(
        Panel(
            "All tasks, and by family" if len(families) > 1 else "All tasks", draw, height_in=height
        )
    )
    if len(tasks) > 1:
        if len(tasks) <= TASKS_IN_A_PANEL:
            split = {"By task": list(tasks)}
        else:
            split = {}
            for key in tasks:
                split.setdefault(family_of[key], []).append(key)
        for title, keys in split.items():
            draw, height = bars([(key[1], tasks[key]) for key in keys], palette)
            panels.append(Panel(title, draw, height_in=height))
    caption = "Success with 95 % Wilson intervals; numbers are successes of scorable starts."
    return Figure("success", caption, tuple(panels), tuple(sources), source_keys(sources))


def budget_figure(
    found: Mapping[str, Mapping[str, Sequence[BudgetPoint]]],
    floors: Mapping[str, float],
    names: Sequence[str],
    sources: Sequence[Source],
) -> Figure:
    """Success of students against their training budget, a panel per policy, a line per source of
    demonstrations; `floors`: untrained.
    """
    colours = {name: SOURCE_COLOURS[(k + 1) % len(SOURCE_COLOURS)] for k, name in enumerate(names)}
    budgets = sorted(
        {p.budget for by_source in found.values() for points in by_source.values() for p in points}
    )

    def panel(title: str, by_source: Mapping[str, Sequence[BudgetPoint]]) -> Panel:
        def draw(ax: Axes) -> None:
            for k, (name, points) in enumerate(by_source.items()):
                aside = (
                    0.012 * max(budgets) * (k - (len(by_source) - 1) / 2)
                )  # so that whiskers do not hide each other
                x = [p.budget + aside for p in points]
                y = [p.mean for p in points]
                ends = (
                    [max(0.0, p.mean - p.low) for p in points],
                    [max(0.0, p.high - p.mean) for p in points],
                )
                ax.errorbar(
                    x,
                    y,
                    yerr=ends,
                    marker="o",
                    markersize=3.5,
                    capsize=2.5,
                    linewidth=1.4,
                    color=colours[name],
                )
            if title in floors:
                ax.axhline(floors[title], color=MUTED, linestyle="--", linewidth=1.0)
            ax.set_xlim(0, 1.1 * max(budgets))
            ax.set_xticks(budgets, [f"{b / 1000:g}k" for b in budgets])
            ax.set_xlabel("training steps")
            ax.set_ylim(-0.02, 1.02)
            ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
            ax.grid(axis="y")

        return Panel(title, draw)

    keys = tuple(Key(f"trained on {name}", colours[name], "line") for name in names)
    keys += (Key("untrained", MUTED, "dashes"),) if floors else ()
    caption = (
        "Success against training budget, the mean over tasks and training seeds; whiskers: 95 %"
        " Wilson intervals of the pooled rollouts."
    )
    return Figure(
        "students", caption, tuple(panel(t, b) for t, b in found.items()), tuple(sources), keys
    )


def starts_figure(sources: Sequence[Source], tasks: Sequence[TaskKey]) -> Figure:
    """Which starts each arm solved."""
    known = {s.number: verdicts(s) for s in sources}
    panels, cut = [], 0
    for task in tasks:
        keys = sorted(
            {k for found in known.values() for k in found if k[:2] == task},
            key=lambda k: (k[3], k[2]),
        )
        cut += max(0, len(keys) - STARTS_SHOWN)
        panels.append(_starts_panel(task, keys[:STARTS_SHOWN], sources, known))
    caption = (
        "Which starts each arm solved: filled solved, open tried and not solved, empty not tried or"
        " not scorable."
    )
    if cut:
        caption += (
            f" The first {STARTS_SHOWN} starts of each task are drawn, {cut} more are in"
            " starts.csv."
        )
    return Figure("starts", caption, tuple(panels), tuple(sources), source_keys(sources))


def _starts_panel(
    task: TaskKey,
    keys: Sequence[tuple[str, str, int, int]],
    sources: Sequence[Source],
    known: Mapping[int, Mapping[tuple[str, str, int, int], bool]],
) -> Panel:
    def draw(ax: Axes) -> None:
        size = 30 if len(keys) <= 24 else 12 if len(keys) <= 45 else 7
        for row, source in enumerate(sources):
            found = known[source.number]
            for solved in (True, False):
                x = [i for i, k in enumerate(keys) if found.get(k) is solved]
                face = colour(source) if solved else "none"
                ax.scatter(
                    x,
                    [row] * len(x),
                    s=size,
                    facecolors=face,
                    edgecolors=colour(source),
                    linewidths=0.8,
                )
        ax.set_ylim(len(sources) - 0.4, -0.6)
        ax.set_xlim(-0.7, max(len(keys), 10) - 0.3)
        ax.set_yticks(range(len(sources)), [plain(s.arm, ARM_CHARACTERS) for s in sources])
        ax.tick_params(axis="y", length=0)
        step = max(1, round(len(keys) / 6))
        ax.set_xticks(
            range(0, len(keys), step), [str(keys[i][2]) for i in range(0, len(keys), step)]
        )
        ax.set_xlabel("start")
        ax.spines["left"].set_visible(False)

    return Panel(task[1], draw, height_in=0.22 * len(sources) + 0.55)


def experience_figure(found: Experience, curves: Mapping[int, Sequence[CurvePoint]]) -> Figure:
    """Success with memory and with memory cleared, and the learning curves."""
    pair = (found.cleared, found.kept)
    groups = [(f"{name}, {p.n} starts", (p.first, p.second)) for name, p in found.splits]
    draw, height = bars(groups, [colour(s) for s in pair])

    def curve(ax: Axes) -> None:
        for source in pair:
            points = curves[source.number]
            x = [p.number for p in points]
            bounds = [wilson(p.tally.successes, p.tally.n) for p in points]
            ax.fill_between(
                x,
                [b[0] for b in bounds],
                [b[1] for b in bounds],
                color=colour(source),
                alpha=0.15,
                linewidth=0,
            )
            ax.plot(x, [p.tally.successes / p.tally.n for p in points], color=colour(source))
        ax.set_ylim(0, 1)
        ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
        ax.set_xlabel("episode of the chain")
        ax.grid(axis="y")

    def requests(ax: Axes) -> None:
        for source in pair:
            points = curves[source.number]
            ax.plot([p.number for p in points], [p.requests for p in points], color=colour(source))
        ax.set_ylim(bottom=0)
        ax.set_xlabel("episode of the chain")
        ax.grid(axis="y")

    panels = (
        Panel("Success on the same starts", draw, height_in=height),
        Panel("Success over the chain, window of five episodes", curve, height_in=2.2),
        Panel("Requests per episode, median of the same window", requests, height_in=2.2),
    )
    caption = (
        "Memory against memory cleared before each episode; each task's first episode, which sees"
        " an empty memory in both, is left out of the bars."
    )
    return Figure(f"experience-{found.kept.number}", caption, panels, pair, source_keys(pair))


def reliability_figure(found: Sequence[Calibration]) -> Figure:
    """Reliability diagrams before and after calibration."""
    sources = tuple(c.source for c in found)
    panels = [
        Panel(
            f"{c.source.arm}: {j.name}. ECE {j.ece:.3f}, AUROC {number(j.auroc, 3)}, Brier"
            f" {j.brier:.3f}",
            _diagram(j, colour(c.source)),
            height_in=3.2,
        )
        for c in found
        for j in c.predictors
    ]
    caption = (
        "Share of executed waypoints reached against the confidence predicted for them, in ten bins"
        " of equal width, with 95 % Wilson intervals; grey bars and numbers: waypoints in the bin."
        " Every prediction was made before its episode."
    )
    return Figure("reliability", caption, tuple(panels), sources, source_keys(sources))


def _diagram(judged: Judged, own: str) -> Draw:
    def draw(ax: Axes) -> None:
        rows = [b for b in judged.bins if b.count]
        most = max(b.count for b in rows)
        for b in rows:
            ax.bar(b.low + 0.05, 0.22 * b.count / most, width=0.094, color=LINE, linewidth=0)
            ax.text(
                b.low + 0.05,
                0.22 * b.count / most + 0.01,
                f"{b.count}",
                ha="center",
                va="bottom",
                fontsize=6,
                color=MUTED,
            )
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.7, linestyle=(0, (4, 3)))
        bounds = [wilson(round(b.reached * b.count), b.count) for b in rows]
        x, y = [b.predicted for b in rows], [b.reached for b in rows]
        ax.vlines(x, [b[0] for b in bounds], [b[1] for b in bounds], color=INK, linewidth=0.8)
        ax.plot(x, y, color=own, marker="o", markersize=4)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1.02)
        ax.set_aspect("equal")
        ax.set_xlabel(f"{judged.name} confidence")
        ax.set_ylabel("share reached")

    return draw


def truncation_figure(found: Sequence[tuple[Source, Sequence[Truncated]]]) -> Figure:
    """Plans truncated against labels seen."""
    sources = tuple(s for s, _ in found)
    lows = sorted({t.low for _, rows in found for t in rows})
    names = {t.low: t.name for _, rows in found for t in rows}

    def draw(ax: Axes) -> None:
        width = 0.8 / len(found)
        for i, (source, rows) in enumerate(found):
            for row in rows:
                x = lows.index(row.low) + (i + 0.5) * width - 0.4
                low, high = wilson(row.plans.successes, row.plans.n)
                ax.bar(
                    x,
                    row.plans.successes / row.plans.n,
                    width=0.9 * width,
                    color=colour(source),
                    linewidth=0,
                )
                ax.plot([x, x], [low, high], color=PAPER, linewidth=2.0, solid_capstyle="butt")
                ax.plot([x, x], [low, high], color=INK, linewidth=0.9, solid_capstyle="butt")
                ax.text(
                    x,
                    high + 0.015,
                    f"{row.plans.n}",
                    ha="center",
                    va="bottom",
                    fontsize=6,
                    color=MUTED,
                )
        ax.set_xticks(range(len(lows)), [names[low].replace(" to ", "\nto ") for low in lows])
        ax.set_ylim(0, 1.05)
        ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
        ax.set_xlabel("reach labels seen before the episode")
        ax.grid(axis="y")
        ax.set_axisbelow(True)

    caption = (
        "Share of plans of which a tail was deferred for low confidence, with 95 % Wilson"
        " intervals; numbers: plans."
    )
    return Figure(
        "truncated",
        caption,
        (Panel("Plans truncated", draw),),
        sources,
        source_keys(sources),
        columns=1,
    )


def weights_figure(source: Source, paths: Sequence[WeightPath]) -> Figure:
    """The calibrator's weights over time, one small panel each."""
    own = colour(source)
    few = len(paths) <= len(DASHES)

    def panel(j: int) -> Panel:
        def draw(ax: Axes) -> None:
            ax.axhline(PRIOR_MEAN[j], color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))
            for i, path in enumerate(paths):
                style = DASHES[i][1] if few else "-"
                ax.plot(
                    path.numbers,
                    path.weights[:, j],
                    color=own,
                    linewidth=1.2 if few else 0.8,
                    linestyle=style,
                    alpha=1 if few else 0.6,
                )
            ax.set_xlabel("episode")
            ax.margins(y=0.15)

        return Panel(FEATURES[j], draw, width_in=SMALL_IN, height_in=1.6)

    keys = (
        [Key(p.task, own, DASHES[i][0]) for i, p in enumerate(paths)]
        if few
        else [Key("one line per task", own, "line")]
    )
    keys.append(Key("prior", MUTED, "dots"))
    caption = f"{source.label}: the calibrator's eight weights before each episode of a chain."
    panels = tuple(panel(j) for j in range(len(FEATURES)))
    return Figure(
        f"weights-{source.number}", caption, panels, (source,), tuple(keys), columns=4, small=True
    )


def tau_figure(found: Sequence[tuple[Source, Sequence[Swept]]]) -> Figure:
    """What other thresholds would have deferred."""
    sources = tuple(s for s, _ in found)

    def panel(source: Source, rows: Sequence[Swept]) -> Panel:
        def draw(ax: Axes) -> None:
            taus = [r.tau for r in rows]
            own = colour(source)
            ax.plot(taus, [r.cut / r.plans for r in rows], color=own, marker="o", markersize=2.5)
            ax.plot(
                taus,
                [r.deferred / r.waypoints for r in rows],
                color=own,
                linestyle="--",
                marker="o",
                markersize=2.5,
            )
            known = [r for r in rows if r.judged >= CUTS_AT_LEAST]
            ax.plot(
                [r.tau for r in known],
                [r.right / (r.right + r.wrong) for r in known],
                color=INK,
                linestyle=":",
                marker="o",
                markersize=2.5,
            )
            if source.tau is not None:
                ax.axvline(source.tau, color=MUTED, linewidth=0.7)
                ax.text(source.tau + 0.01, 1.0, "τ used", fontsize=7, color=MUTED, va="top")
            ax.set_xlim(0, 1)
            ax.set_ylim(0, 1.02)
            ax.set_yticks([0, 0.5, 1], ["0", "50", "100 %"])
            ax.set_xlabel("threshold τ")
            ax.grid(axis="y")

        return Panel(source.label, draw)

    keys = (
        Key("plans cut", INK, "line"),
        Key("waypoints deferred", INK, "dashes"),
        Key("cuts that were right, where the outcome is known", INK, "dots"),
    )
    caption = (
        "The recorded plans"
        f" ({', '.join(f'{s.label}: {rows[0].plans:,}' for s, rows in found if rows)}) under other"
        " thresholds: how much would have been deferred, and how often the waypoint at which a"
        f" plan is cut was in fact not reached, where at least {CUTS_AT_LEAST} such waypoints were"
        " executed; the table has the counts."
    )
    return Figure("tau", caption, tuple(panel(s, rows) for s, rows in found), sources, keys)


def tokens_figure(found: Sequence[Bill]) -> Figure:
    """Tokens per attempt by kind."""
    sources = tuple(b.source for b in found)

    def draw(ax: Axes) -> None:
        most = 0.0
        for y, item in enumerate(found):
            assert item.tokens is not None
            parts = {k: getattr(item.tokens, k) for k in KINDS}
            parts["output"] -= parts["reasoning"]
            attempts = sum(r.requests > 0 for r in item.source.recorded) or 1
            left = 0.0
            for kind, own in zip(KINDS, KIND_COLOURS, strict=True):
                size = parts[kind] / attempts / 1000
                ax.barh(y, size, left=left, height=0.42, color=own, linewidth=0)
                left += size
            ax.text(
                0,
                y - 0.3,
                plain(item.source.label, NAME_CHARACTERS),
                ha="left",
                va="bottom",
                fontsize=8,
            )
            most = max(most, left)
        ax.set_ylim(len(found) - 0.5, -0.85)
        ax.set_xlim(0, most * 1.02 or 1)
        ax.set_yticks([])
        ax.set_xlabel("thousand tokens per attempt")
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        ax.set_axisbelow(True)

    names = ("fresh input", "cached input", "cache write", "output", "reasoning (part of output)")
    keys = tuple(Key(n, c) for n, c in zip(names, KIND_COLOURS, strict=True))
    caption = "Where the tokens went: mean per attempt, invalidated ones included."
    panel = Panel("Tokens per attempt", draw, height_in=0.5 * len(found) + 0.6)
    return Figure("tokens", caption, (panel,), sources, keys, columns=1)


def decisions_figure(found: Sequence[DecisionCurve]) -> Figure:
    """Cost of each decision over the episode."""
    sources = tuple(c.source for c in found)
    units = list(dict.fromkeys(c.unit for c in found))

    def panel(unit: str) -> Panel:
        def draw(ax: Axes) -> None:
            scale = 1.0 if unit == "$" else 1e-3
            for curve in (c for c in found if c.unit == unit):
                x = [p.number for p in curve.points]
                own = colour(curve.source)
                low, mid, high = (
                    np.array([getattr(p, n) for p in curve.points]) * scale
                    for n in ("low", "median", "high")
                )
                ax.fill_between(x, low, high, color=own, alpha=0.18, linewidth=0)
                ax.plot(x, mid, color=own, marker="o" if len(x) < 10 else None, markersize=3)
            ax.set_ylim(bottom=0)
            ax.set_xlabel("decision of the episode")
            ax.set_ylabel("dollars" if unit == "$" else "thousand tokens")
            ax.grid(axis="y")

        return Panel(
            "Cost per decision" if unit == "$" else "Tokens per decision (no price is known)", draw
        )

    read = "; ".join(f"{c.source.label}: {c.read} of {c.of} episodes" for c in found)
    caption = (
        "What each decision of an episode took, median and quartiles over the episodes that came"
        f" so far. Read: {read}."
    )
    return Figure(
        "decisions",
        caption,
        tuple(panel(u) for u in units),
        sources,
        source_keys(sources, "line"),
        columns=1,
    )
