"""Figures as values: panels that matplotlib draws once for the page, each an inline SVG in the
page's own colours, and once for the files. A figure names its sources, so that a stand-in is
labelled in the page and in every file by construction.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from capex.report.sources import Source, plain
from capex.report.tables import stand_in_sentence

WIDTH_IN = 3.8  # a panel on a phone's page; wider screens put several beside each other
PNG_DPI = 200
TITLE_CHARACTERS, SENTENCE_CHARACTERS = 16, 19  # in an inch
# Heights in the files; the last one of each further line of the sentence.
TITLE_IN, KEYS_IN, SENTENCE_IN, LINE_IN = 0.25, 0.24, 0.22, 0.12

# Colours of the files, and for each the page's variable, which has a light and a dark value.
INK, MUTED, LINE, PAPER = "#1c2127", "#68707a", "#d9dde2", "#fefefe"
SOURCE_COLOURS = (
    *("#8b929b", "#2a66ad", "#3f9fa3", "#8a63ae"),
    *("#c4842b", "#b4475c", "#5d8a3f", "#7a5a44"),
)
# Fresh, cached, cache write, output, reasoning.
KIND_COLOURS = ("#234a78", "#8fb3d9", "#c9b458", "#b35a3c", "#e0a58e")
VARIABLES = {
    **{INK: "--ink", MUTED: "--muted", LINE: "--line", PAPER: "--paper"},
    **{c: f"--source-{i}" for i, c in enumerate(SOURCE_COLOURS)},
    **{c: f"--kind-{i}" for i, c in enumerate(KIND_COLOURS)},
}
TICKS = {"color": MUTED, "labelcolor": INK, "labelsize": 7.5, "major.width": 0.6, "major.size": 2.5}
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    **{f"{axis}tick.{name}": value for axis in "xy" for name, value in TICKS.items()},
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "svg.fonttype": "none",
}
DASHES = {"line": "-", "dashes": "--", "dots": ":", "dashdot": "-."}  # a key's style in a legend
Draw = Callable[[Axes], None]


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a heading and a function that draws into it."""

    title: str
    draw: Draw
    width_in: float = WIDTH_IN
    height_in: float = 2.6


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    label: str
    colour: str
    style: str = "box"  # or one of DASHES


@dataclass(frozen=True)
class Figure:
    """Panels with a caption and a common legend."""

    name: str
    caption: str
    panels: Sequence[Panel]
    sources: Sequence[Source]
    keys: Sequence[Key] = ()
    columns: int = 2  # of the files
    small: bool = False  # panels of half the width

    @property
    def stand_in(self) -> str:
        """The sentence that names the stand-ins; empty without one."""
        return stand_in_sentence(self.sources)


def colour(source: Source) -> str:
    """The source's colour, the same in every figure."""
    return SOURCE_COLOURS[source.colour % len(SOURCE_COLOURS)]


def inline(panel: Panel, salt: str) -> str:
    """A panel as SVG for the page, in its colours and font; matplotlib escapes all text."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}):
        canvas = Canvas(figsize=(panel.width_in, panel.height_in), layout="constrained")
        panel.draw(canvas.add_subplot())
        text = _svg(canvas)
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r'<svg ([^>]*?)width="[^"]*" ([^>]*?)height="[^"]*"', r"<svg \1\2", body, count=1)
    body = body.replace("<svg ", f'<svg role="img" aria-label="{escape(panel.title)}" ', 1)
    body = re.sub(r"'DejaVu Sans'(, sans-serif)?", "var(--sans)", body)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    return body


def files(figure: Figure) -> dict[str, bytes]:
    """NAME.svg and NAME.png: panels with titles, the legend below, and the stand-ins' sentence."""
    columns = min(figure.columns, len(figure.panels)) or 1
    rows = math.ceil(len(figure.panels) / columns)
    lines = [figure.panels[r * columns : (r + 1) * columns] for r in range(rows)]
    heights = [max(p.height_in for p in line) for line in lines]
    width = columns * max(p.width_in for p in figure.panels)
    said = textwrap.wrap(figure.stand_in, int(width * SENTENCE_CHARACTERS))
    sentence = SENTENCE_IN + LINE_IN * (len(said) - 1) if said else 0.0
    longest = max((len(k.label) for k in figure.keys), default=1)
    ncols = max(1, int(width / (0.075 * longest + 0.45)))  # keys beside each other
    foot = KEYS_IN * math.ceil(len(figure.keys) / ncols) + sentence
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": figure.name, "figure.facecolor": PAPER}):
        height = sum(heights) + TITLE_IN * rows + foot
        below = ConstrainedLayoutEngine(rect=(0, foot / height, 1, 1 - foot / height))
        canvas = Canvas(figsize=(width, height), layout=below)
        grid = canvas.add_gridspec(rows, columns, height_ratios=heights)
        for k, panel in enumerate(figure.panels):
            axes = canvas.add_subplot(grid[k // columns, k % columns])
            panel.draw(axes)
            axes.set_title(plain(panel.title, int(panel.width_in * TITLE_CHARACTERS)))
        if figure.keys:
            handles, corner = [_handle(key) for key in figure.keys], (0.01, sentence / height)
            canvas.legend(handles=handles, ncols=ncols, loc="lower left", bbox_to_anchor=corner)
        if said:
            canvas.text(0.012, 0.01, "\n".join(said), fontsize=6.5, color=MUTED, va="bottom")
        png = io.BytesIO()
        FigureCanvasAgg(canvas)
        told = {"Description": figure.stand_in} if said else {}
        options: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}, "metadata": told}
        canvas.savefig(png, format="png", dpi=PNG_DPI, **options)
        canvas.set_layout_engine("none")  # it stays as it was laid out
        svg = _svg(canvas)
    return {f"{figure.name}.svg": svg.encode(), f"{figure.name}.png": png.getvalue()}


def _handle(key: Key) -> Any:
    if key.style in DASHES:
        return Line2D([], [], color=key.colour, linestyle=DASHES[key.style], label=key.label)
    return Patch(color=key.colour, label=key.label)


def _svg(canvas: Canvas) -> str:
    out = io.StringIO()
    FigureCanvasSVG(canvas)
    canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
