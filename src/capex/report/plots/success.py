"""Success: by task and family, by start, and with and without memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from capex.report.compare import Tally, TaskKey, verdicts
from capex.report.experience import CurvePoint, Experience
from capex.report.figures import Figure, Panel, colour
from capex.report.plots.axes import bars, percent_ticks, source_keys
from capex.report.rows import StartKey
from capex.report.sources import Source, plain
from capex.run.stats import wilson

TASKS_IN_A_PANEL = 6
STARTS_SHOWN = 60
ARM_CHARACTERS = 16  # what fits beside the marks


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
    keys: Sequence[StartKey],
    sources: Sequence[Source],
    known: Mapping[int, Mapping[StartKey, bool]],
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
        percent_ticks(ax)
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
