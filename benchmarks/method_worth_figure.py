"""What each part of the method brings as a function of skill: one figure.

    python benchmarks/method_worth_figure.py OUT FILE.png [STUDY.toml]

A column for each part of the study that is no other tau, at each skill capex against the arm
without the part, on the same starts: success gained, and requests and steps per success as a ratio.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from method_worth import STUDY, read_study
from method_worth_tables import Arm, load, pair_of

from capex.report.figures import INK, MUTED, SOURCE_COLOURS, STYLE

RATIOS = (0.125, 0.25, 0.5, 1, 2, 4, 8)
ROWS = ("success gained, points", "requests per success, ratio", "steps per success, ratio")


def draw(arms: Mapping[tuple[Any, str], Arm], study: Mapping[str, Any], path: Path) -> None:
    """Write the figure."""
    parts = {name: arm for name, arm in study["parts"].items() if not name.startswith("tau")}
    skills = study["skills"]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.75 * len(parts) + 0.5, 5.6), layout="constrained")
        axes = figure.subplots(len(ROWS), len(parts), sharex=True, sharey="row", squeeze=False)
        for k, (part, other) in enumerate(parts.items()):
            axes[0][k].set_title(part, fontsize=9)
            for at, skill in enumerate(skills):
                if (pair := pair_of(arms, skill, other)) is None:
                    continue
                gain, ends, _, _ = pair.success()
                _mark(axes[0][k], at, 100 * gain, (100 * ends[0], 100 * ends[1]))
                for row, amount in enumerate(("requests", "steps"), start=1):
                    if (found := pair.ratio(amount)) is not None:
                        _mark(axes[row][k], at, *found)
            _base(axes[-1][k], arms, skills)
        for row, name in enumerate(ROWS):
            axes[row][0].set_ylabel(name)
            for ax in axes[row]:
                _ground(ax, 1.0 if row else 0.0)
                if row:
                    ax.set_yscale("log", base=2)
                    ax.set_yticks(RATIOS, [f"{r:g}" for r in RATIOS])
                    ax.set_ylim(RATIOS[0], RATIOS[-1])
        figure.supxlabel("skill, and below it the share of starts that base solves", fontsize=8)
        figure.savefig(path, dpi=150)


def _mark(ax: Axes, at: float, value: float, ends: tuple[float, float]) -> None:
    ax.plot([at, at], ends, color=SOURCE_COLOURS[1], linewidth=1.4, solid_capstyle="butt")
    ax.plot([at], [value], color=SOURCE_COLOURS[1], marker="o", markersize=4.5)


def _ground(ax: Axes, level: float) -> None:
    """The line of no difference."""
    ax.axhline(level, color=MUTED, linewidth=0.9, zorder=0)
    ax.grid(axis="y")
    ax.tick_params(labelcolor=INK)


def _base(ax: Axes, arms: Mapping[tuple[Any, str], Arm], skills: list[Any]) -> None:
    """Skills by name, with what the base method solves there."""
    labels = []
    for skill in skills:
        arm = arms.get((skill, "base"))
        labels.append(
            f"{skill:g}\n{100 * arm.solved / len(arm.rows):.0f} %" if arm else f"{skill:g}"
        )
    ax.set_xticks(range(len(skills)), labels)
    ax.set_xlim(-0.5, len(skills) - 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("figure", type=Path)
    parser.add_argument("study", type=Path, nargs="?", default=STUDY)
    args = parser.parse_args()
    study = read_study(args.study)
    draw(load(args.out, study), study, args.figure)


if __name__ == "__main__":
    main()
