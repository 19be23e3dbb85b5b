"""Small drawings of a plan: into a frame's image, and its confidences as bars and circles.

SVG in the page's colours; text from records enters through `Markup.format`, which escapes it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from PIL import Image as Picture

from capex.dataset.projection import Mark, Point, fate
from capex.method.record import Turn
from capex.pose import Array
from capex.report.cards import Card, Twins
from capex.report.figures import Figure, Panel
from capex.report.strips import Strip, StripFrame, robot_base

TRACK_WIDTH, TRACK_BASE, NO_CONFIDENCE_BASE = 160, 42, 8
SLOTS_AT_LEAST = 8
# In photographs the colours are the same in a light and a dark page.
FATE_COLOURS = {
    "done": "#35c57c",
    "stopped": "#ff4d5e",
    "deferred": "#ffd23f",
    "skipped": "#c9ced6",
}


def data_uri(image: bytes, kind: str = "jpeg") -> str:
    """An image inside the page."""
    return f"data:image/{kind};base64," + base64.b64encode(image).decode()


def _svg(shape: str, *values: object) -> Markup:
    return Markup(shape).format(*values)


def overlay(frame: StripFrame) -> Markup:
    """The plan in force, drawn over the frame's image."""
    parts = [_svg('<svg class="plan" viewBox="0 0 {} {}" aria-hidden="true">', *frame.size)]
    for drawn in frame.drawn:
        line = " ".join(f"{x:g},{y:g}" for x, y in drawn.path)
        both = '<polyline class="under" points="{0}"/><polyline class="over" points="{0}"/>'
        parts += [_svg(both, line), *(_mark(mark, frame.turn) for mark in drawn.marks)]
    return Markup("").join([*parts, Markup("</svg>")])


def _mark(mark: Mark, turn: Turn | None) -> Markup:
    x, y = mark.at
    title = describe(turn, mark.place) if turn is not None else ""
    shape = _svg('<circle class="{}" cx="{}" cy="{}" r="4.2"/>', mark.fate, x, y)
    if mark.stopped_at is not None:
        sx, sy = mark.stopped_at
        cross = f"M{sx - 5:g} {sy - 5:g}l10 10m0 -10l-10 10"
        shape += _svg('<path class="leg" d="{}"/>', f"M{x:g} {y:g}L{sx:g} {sy:g}")
        shape += _svg('<path class="cross-under" d="{0}"/><path class="cross" d="{0}"/>', cross)
    number = _svg('<text x="{}" y="{}">{}</text>', x + 6, y - 5, mark.place)
    return _svg("<g><title>{}</title>{}{}</g>", title, shape, number)


def describe(turn: Turn, place: int) -> str:
    """One waypoint in words: what was stated, what calibration made of it, what became of it."""
    row = turn.waypoints[place - 1]
    told = [f"waypoint {place}"]
    if row.waypoint.confidence is not None:
        told.append(f"stated {row.waypoint.confidence:.2f}")
    if row.calibrated is not None:
        told.append(f"calibrated {row.calibrated:.2f}")
    return ", ".join(told) + f": {robot_base(row.report)}"


def track(turn: Turn, tau: float | None) -> Markup:
    """Confidences of a plan: a circle at what was stated, a bar as high as what calibration made of
    it, coloured by what became of it.
    """
    step = (TRACK_WIDTH - 4) / max(len(turn.waypoints), SLOTS_AT_LEAST)
    confident = any(w.waypoint.confidence is not None for w in turn.waypoints)
    base = TRACK_BASE if confident else NO_CONFIDENCE_BASE
    scale = base - 6
    ran = sum(fate(w.status) in ("done", "stopped") for w in turn.waypoints)
    aloud = f"plan of {len(turn.waypoints)} waypoints, {turn.committed} committed, {ran} run"
    box = '<svg class="track" viewBox="0 0 {} {}" role="img" aria-label="{}">'
    parts = [_svg(box, TRACK_WIDTH, base + 4, aloud)]
    level = '<line class="{0}" x1="0" x2="{1}" y1="{2}" y2="{2}"/>'
    if tau is not None and confident:
        parts.append(_svg(level, "tau", TRACK_WIDTH, f"{base - scale * tau:g}"))
    for k, row in enumerate(turn.waypoints):
        x = 2 + k * step
        p, q = row.calibrated, row.waypoint.confidence
        height = scale * p if p is not None else 4.0
        bar = (f"{v:.1f}" for v in (x + 0.15 * step, base - height, 0.7 * step, height))
        rect = '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>'
        shape = _svg(rect, fate(row.status), *bar)
        if q is not None:
            centre = f"{x + 0.5 * step:.1f}", f"{base - scale * q:.1f}"
            shape += _svg('<circle cx="{}" cy="{}" r="2"/>', *centre)
        parts.append(_svg("<g><title>{}</title>{}</g>", describe(turn, k + 1), shape))
    return Markup("").join([*parts, _svg(level + "</svg>", "floor", TRACK_WIDTH, base)])


def twins_figure(number: int, twins: Twins, cards: tuple[Card, Card]) -> Figure:
    """Two strips as a figure for the files."""

    def panel(card: Card) -> Panel:
        e = card.episode
        took = (
            f"{e.steps} steps ({card.strip.seconds:.1f} s)"
            if card.strip.seconds
            else f"{e.steps} steps"
        )
        title = f"{card.source.label}: {card.outcome}, {took}, {e.decisions} decisions"
        return Panel(title, partial(_draw_strip, card.strip), width_in=9.0, height_in=1.55)

    panels, sources = [panel(c) for c in cards if c.strip.frames], [c.source for c in cards]
    return Figure(f"twins-{number}", twins.caption, panels, sources, columns=1)


def _draw_strip(strip: Strip, ax: Axes) -> None:
    images = [np.asarray(Picture.open(io.BytesIO(f.jpeg))) for f in strip.frames]
    ax.imshow(np.concatenate(images, axis=1))
    dots: list[Point] = []
    colours: list[str] = []
    crosses: list[Point] = []
    for k, frame in enumerate(strip.frames):
        for drawn in frame.drawn:
            ax.plot(*_columns(_inside(drawn.path, k, frame)), color="white", linewidth=0.8)
            for mark in drawn.marks:
                inside = _inside([mark.at], k, frame)
                dots += inside
                colours += [FATE_COLOURS[mark.fate]] * len(inside)
                stopped = [mark.stopped_at] if mark.stopped_at is not None else []
                crosses += _inside(stopped, k, frame)
    x, y = _columns(dots)
    ax.scatter(x, y, s=5, c=colours, edgecolors="black", linewidths=0.4, zorder=3)
    x, y = _columns(crosses)
    ax.scatter(x, y, s=16, marker="x", color=FATE_COLOURS["stopped"], zorder=4)
    width, height = strip.frames[0].size
    ax.set_xlim(0, width * len(images))
    ax.set_ylim(height, 0)
    ax.set_axis_off()


def _inside(points: Sequence[Point], k: int, frame: StripFrame) -> list[Point]:
    """Points within the k-th image, in pixels of the whole strip."""
    width, height = frame.size
    return [(k * width + u, v) for u, v in points if 0 <= u <= width and 0 <= v <= height]


def _columns(points: Sequence[Point]) -> Array:
    return np.reshape(points, (-1, 2)).T
