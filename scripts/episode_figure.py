"""The figure of an episode: each plan drawn into the robot's view at the moment it was made, its
confidences below, its outcomes in words.

    python scripts/episode_figure.py runs/NAME/chains/CHAIN/episodes/0006 docs/episode.png

Colour is the calibrated confidence. A filled waypoint was committed, a hollow one deferred. Bars
are calibrated and circles stated confidences; the dashed line is tau.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from capex.dataset.film import open_episode
from capex.dataset.frames import plans_of
from capex.dataset.projection import tips_at
from capex.method.presets import PRESETS
from capex.method.record import EpisodeRecord, Turn, WaypointRecord
from capex.pose import Array
from capex.worlds import CameraModel, Image

SIZE_PX = 512
COLUMNS_MAX = 4  # decisions that fit beside each other
COLOURS = LinearSegmentedColormap.from_list("trust", ["#c81d3a", "#f0a500", "#128a4b"])
UNKNOWN = "#9aa3ad"  # no confidence: a base motion, a gripper command alone, the base arm
INK = "#1d2329"


def colour(row: WaypointRecord) -> tuple[float, ...] | str:
    """Red at 0, amber at 0.5, green at 1."""
    return UNKNOWN if row.calibrated is None else COLOURS(row.calibrated)


def draw_plan(
    ax: Axes, image: Image, turn: Turn, tips_m: Mapping[str, Array], model: CameraModel
) -> None:
    """A view with the path of each arm from its tip over the plan's waypoints."""
    ax.imshow(image)
    for arm, tip_m in tips_m.items():
        places = [k for k, w in enumerate(turn.waypoints) if arm in w.clamped_m]
        points = [model.project(tip_m)[:2]]
        points += [model.project(np.asarray(turn.waypoints[k].clamped_m[arm]))[:2] for k in places]
        for k, (begin, end) in enumerate(itertools.pairwise(points)):
            tail = places[k] >= turn.committed
            line = {"linewidth": 1.4, "linestyle": (0, (2, 1.6)) if tail else "-", "zorder": 2}
            ax.plot(*zip(begin, end, strict=True), color="white", **line)
        for k, (x, y) in zip(places, points[1:], strict=True):
            ran, shade = k < turn.committed, colour(turn.waypoints[k])
            if ran:
                ax.scatter(x, y, s=80, color=shade, edgecolors="black", linewidths=0.8, zorder=3)
            else:
                for edge, line in (("black", 3.6), (shade, 2.2)):
                    ring = {"facecolors": "none", "edgecolors": edge, "linewidths": line}
                    ax.scatter(x, y, s=80, zorder=3, **ring)
            style = {
                "fontsize": 6.5,
                "fontweight": "bold",
                "zorder": 4,
                "ha": "center",
                "va": "center_baseline",
            }
            ax.text(x if ran else x + 26, y, str(k + 1), color="white" if ran else INK, **style)
    ax.set_xlim(0, SIZE_PX)
    ax.set_ylim(SIZE_PX, 0)
    ax.set_axis_off()


def draw_confidences(ax: Axes, turn: Turn, tau: float, most: int) -> None:
    """A bar and a circle for each waypoint: calibrated and stated confidence."""
    for k, row in enumerate(turn.waypoints, start=1):
        ran, shade = k <= turn.committed, colour(row)
        if row.calibrated is not None:
            face = shade if ran else "white"
            ax.bar(k, row.calibrated, 0.66, facecolor=face, edgecolor=shade, linewidth=1.8)
        if row.waypoint.confidence is not None:
            ax.scatter(k, row.waypoint.confidence, s=16, color=INK, zorder=3)
        if row.label is not None:
            word, shade = ("reached", INK) if row.label else ("stopped", "#c81d3a")
            ax.text(k - 0.2, 1.05, word, fontsize=7, rotation=50, color=shade)
    if all(w.calibrated is None for w in turn.waypoints):
        ax.text(0.6, tau + 0.05, "no confidence, no label", fontsize=8, va="bottom")
    ax.axhline(tau, color=INK, linewidth=0.9, linestyle="--", zorder=0)
    ax.text(most + 0.7, tau, f"tau {tau:g}", fontsize=8, va="center")
    ax.set_xlim(0.4, most + 0.6)
    ax.set_ylim(0, 1.0)
    ax.set_xticks(range(1, len(turn.waypoints) + 1))
    ax.set_yticks([0, 0.5, 1])
    ax.tick_params(labelsize=8, length=2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("waypoint", fontsize=8)


def say(turn: Turn) -> str:
    """What became of a plan."""
    count = len(turn.waypoints)
    if turn.waypoints[0].waypoint.base is not None:
        return f"Decision {turn.decision}: a base motion\n{turn.waypoints[0].report}"
    told = f"Decision {turn.decision}: {count} waypoints, {turn.committed} committed"
    for k, row in enumerate(turn.waypoints, start=1):
        if row.status == "terminal":
            return f"{told}\nsuccess while waypoint {k} ran"
        if row.label == 0:
            return f"{told}\nwaypoint {k}: {row.report}"
    return told + "\nall of them reached"


def draw(episode: Path, out: Path) -> EpisodeRecord:
    """Write the figure; the episode's record tells the caller what it shows."""
    with open_episode(episode) as (record, steps, views):
        plans: Sequence[Turn] = plans_of(record, steps)[:COLUMNS_MAX]
        camera = views.spec.cameras[0].name
        width, count, most = 4.1, len(plans), max(len(t.waypoints) for t in plans)
        figure, axes = plt.subplots(
            2, count, figsize=(width * count, 6.5), height_ratios=(3, 1), squeeze=False
        )
        for k, turn in enumerate(plans):
            tick, size = int(steps["plan_starts"][k]), (SIZE_PX, SIZE_PX)
            tips_m = tips_at(views, tick)
            image = next(views.pictures({camera: size}, [tick]))[camera]
            model = views.camera_model(camera, tick, size)
            draw_plan(axes[0][k], image, turn, tips_m, model)
            axes[0][k].set_title(say(turn), fontsize=9, loc="left")
            draw_confidences(axes[1][k], turn, PRESETS[record.arm].tau, most)
    axes[1][0].set_ylabel("confidence", fontsize=8)
    standing = ", a stand-in" if record.stand_in else ""
    result = "success" if record.success else "no success"
    figure.suptitle(
        f"{record.world}:{record.task}, start {record.start}: “{record.instruction}”"
        f"  {record.model}{standing}, {record.arm}; {result} after {record.steps} steps",
        fontsize=9.5,
        x=0.01,
        ha="left",
    )
    figure.tight_layout(h_pad=2.2)
    figure.savefig(out, dpi=110)
    return record


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} EPISODE OUT.png")
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
    print(sys.argv[2])
