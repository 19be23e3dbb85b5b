"""Success: by task and family, by start, and with and without memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from capex.report.compare import Tally, TaskKey, grouped, task_of, verdicts
from capex.report.experience import CurvePoint, Experience
from capex.report.figures import Figure, Panel, colour
from capex.report.plots.axes import level_axes, source_keys, success_bars, whole_numbers
from capex.report.sources import Source, plain
from capex.run.stats import wilson
from capex.run.summary import StartKey

TASKS_IN_A_PANEL = 6
STARTS_SHOWN = 60
METHOD_CHARACTERS = 16  # what fits beside the marks


def success_figure(
    sources: Sequence[Source],
    overall: Sequence[Tally],
    families: Mapping[str, Sequence[Tally | None]],
    tasks: Mapping[TaskKey, Sequence[Tally | None]],
    family_of: Mapping[TaskKey, str],
) -> Figure:
    """Success per task and per family."""
    together = [("All tasks", overall), *(families.items() if len(families) > 1 else ())]
    title = "All tasks, and by family" if len(families) > 1 else "All tasks"
    panels = [success_bars(title, together, sources)]
    few = len(tasks) <= TASKS_IN_A_PANEL
    split = grouped(tasks, lambda key: "By task" if few else family_of[key])
    for title, keys in split.items() if len(tasks) > 1 else ():
        panels.append(success_bars(title, [(key[1], tasks[key]) for key in keys], sources))
    caption = "Success with 95 % Wilson intervals; numbers are successes of scorable starts."
    return Figure("success", caption, panels, sources, source_keys(sources))


def starts_figure(sources: Sequence[Source]) -> Figure:
    """Which starts each source solved."""
    known = [verdicts(s) for s in sources]
    panels, cut = [], 0
    for task in dict.fromkeys(task_of(e) for s in sources for e in s.scorable):
        own = {key for solved in known for key in solved if key[:2] == task}
        keys = sorted(own, key=lambda k: (k[3], k[2]))
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
    return Figure("starts", caption, panels, sources, source_keys(sources))


def _starts_panel(
    task: TaskKey,
    keys: Sequence[StartKey],
    sources: Sequence[Source],
    known: Sequence[Mapping[StartKey, bool]],
) -> Panel:
    def draw(ax: Axes) -> None:
        size = 30 if len(keys) <= 24 else 12 if len(keys) <= 45 else 7
        for row, (source, solved_by) in enumerate(zip(sources, known, strict=True)):
            edge = colour(source)
            for solved, face in ((True, edge), (False, "none")):
                x = [i for i, k in enumerate(keys) if solved_by.get(k) is solved]
                y = [row] * len(x)
                ax.scatter(x, y, s=size, facecolors=face, edgecolors=edge, linewidths=0.8)
        ax.set_ylim(len(sources) - 0.4, -0.6)
        ax.set_xlim(-0.7, max(len(keys), 10) - 0.3)
        ax.set_yticks(range(len(sources)), [plain(s.arm, METHOD_CHARACTERS) for s in sources])
        ax.tick_params(axis="y", length=0)
        ticks = range(0, len(keys), max(1, round(len(keys) / 6)))
        ax.set_xticks(ticks, [str(keys[i][2]) for i in ticks])
        ax.set_xlabel("start")
        ax.spines["left"].set_visible(False)

    return Panel(task[1], draw, height_in=0.22 * len(sources) + 0.55)


def experience_figure(experience: Experience, curves: Mapping[int, Sequence[CurvePoint]]) -> Figure:
    """Success with memory and with memory cleared, and the learning curves."""
    pair = (experience.cleared, experience.kept)
    groups = [(f"{name}, {p.n} starts", (p.first, p.second)) for name, p in experience.splits]

    def success(ax: Axes) -> None:
        for source in pair:
            points, own = curves[source.number], colour(source)
            x, solved = [p.number for p in points], [(p.tally.successes, p.tally.n) for p in points]
            low, high = zip(*(wilson(*counts) for counts in solved), strict=True)
            ax.fill_between(x, low, high, color=own, alpha=0.15, linewidth=0)
            if len(x) == 1:  # a band of one place has no width
                ax.vlines(x, low, high, color=own, linewidth=0.9)
            share = [successes / n for successes, n in solved]
            ax.plot(x, share, color=own, marker="o", markersize=2.5, clip_on=False)
        level_axes(ax, "episode of the chain", top=1)
        whole_numbers(ax, "episode of the chain")

    def requests(ax: Axes) -> None:
        for source in pair:
            points = curves[source.number]
            x, median = [p.number for p in points], [p.requests for p in points]
            ax.plot(x, median, color=colour(source), marker="o", markersize=2.5)
        level_axes(ax, "episode of the chain")
        whole_numbers(ax, "episode of the chain")

    panels = (
        success_bars("Success on the same starts", groups, pair),
        Panel("Success over the chain, window of five episodes", success, height_in=2.2),
        Panel("Requests per episode, median of the same window", requests, height_in=2.2),
    )
    caption = (
        "Memory against memory cleared before each episode; each task's first episode, which sees"
        " an empty memory in both, is left out of the bars."
    )
    return Figure(f"experience-{experience.kept.number}", caption, panels, pair, source_keys(pair))
