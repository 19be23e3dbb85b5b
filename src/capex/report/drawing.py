"""Small drawings of a plan: into a frame's image, and its confidences as bars and circles. SVG in
the page's colours.

Text from records enters through `Markup.format`, which escapes it.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from PIL import Image as Picture

from capex.method.record import Turn
from capex.report.cards import Card, Twins
from capex.report.figures import Figure, Panel
from capex.report.strips import SIZE_PX, Frame, Mark, Point, fate

TRACK_WIDTH, TRACK_BASE, NO_CONFIDENCE_BASE = 160, 42, 8
SLOTS_AT_LEAST = 8
# In photographs the colours are the same in a light and a dark page.
FATE_COLOURS = {
    "done": "#35c57c",
    "stopped": "#ff4d5e",
    "deferred": "#ffd23f",
    "skipped": "#c9ced6",
}


def data_uri(jpeg: bytes) -> str:
    """An image inside the page."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()


def overlay(frame: Frame) -> Markup:
    """The plan in force, drawn over the frame's image."""
    parts = [Markup('<svg class="plan" viewBox="0 0 {0} {0}" aria-hidden="true">').format(SIZE_PX)]
    for drawn in frame.drawn:
        line = _points(drawn.path)
        parts.append(
            Markup(
                '<polyline class="under" points="{0}"/><polyline class="over" points="{0}"/>'
            ).format(line)
        )
        parts += [_mark(mark, frame.turn) for mark in drawn.marks]
    return Markup("").join([*parts, Markup("</svg>")])


def _points(path: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in path)


def _mark(mark: Mark, turn: Turn | None) -> Markup:
    x, y = mark.at
    title = describe(turn, mark.place) if turn is not None else ""
    shape = Markup('<circle class="{}" cx="{}" cy="{}" r="4.2"/>').format(mark.fate, x, y)
    if mark.stopped_at is not None:
        sx, sy = mark.stopped_at
        cross = f"M{sx - 5:g} {sy - 5:g}l10 10m0 -10l-10 10"
        leg = f"M{x:g} {y:g}L{sx:g} {sy:g}"
        shape += Markup(
            '<path class="leg" d="{}"/><path class="cross-under" d="{}"/><path class="cross"'
            ' d="{}"/>'
        ).format(leg, cross, cross)
    number = Markup('<text x="{}" y="{}">{}</text>').format(x + 6, y - 5, mark.place)
    return Markup("<g><title>{}</title>{}{}</g>").format(title, shape, number)


def describe(turn: Turn, place: int) -> str:
    """One waypoint in words: what was stated, what calibration made of it, what became of it."""
    row = turn.waypoints[place - 1]
    told = [f"waypoint {place}"]
    if row.waypoint.confidence is not None:
        told.append(f"stated {row.waypoint.confidence:.2f}")
    if row.calibrated is not None:
        told.append(f"calibrated {row.calibrated:.2f}")
    return ", ".join(told) + f": {row.report}"


def track(turn: Turn, tau: float | None) -> Markup:
    """Confidences of a plan: a circle at what was stated, a bar as high as what calibration made of
    it, coloured by what became of it.
    """
    slots = max(len(turn.waypoints), SLOTS_AT_LEAST)
    step = (TRACK_WIDTH - 4) / slots
    base = (
        TRACK_BASE
        if any(w.waypoint.confidence is not None for w in turn.waypoints)
        else NO_CONFIDENCE_BASE
    )
    scale = base - 6
    box = (TRACK_WIDTH, base + 4, _aloud(turn))
    parts = [
        Markup('<svg class="track" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(*box)
    ]
    if tau is not None and base == TRACK_BASE:
        y = base - scale * tau
        parts.append(
            Markup('<line class="tau" x1="0" x2="{}" y1="{}" y2="{}"/>').format(
                TRACK_WIDTH, f"{y:g}", f"{y:g}"
            )
        )
    for k, row in enumerate(turn.waypoints):
        x = 2 + k * step
        p, q = row.calibrated, row.waypoint.confidence
        height = scale * p if p is not None else 4.0
        bar = tuple(f"{v:.1f}" for v in (x + 0.15 * step, base - height, 0.7 * step, height))
        shape = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
            fate(row.status), *bar
        )
        if q is not None:
            shape += Markup('<circle cx="{}" cy="{}" r="2"/>').format(
                f"{x + 0.5 * step:.1f}", f"{base - scale * q:.1f}"
            )
        parts.append(Markup("<g><title>{}</title>{}</g>").format(describe(turn, k + 1), shape))
    parts.append(
        Markup('<line class="floor" x1="0" x2="{0}" y1="{1}" y2="{1}"/></svg>').format(
            TRACK_WIDTH, base
        )
    )
    return Markup("").join(parts)


def _aloud(turn: Turn) -> str:
    ran = sum(fate(w.status) in ("done", "stopped") for w in turn.waypoints)
    return f"plan of {len(turn.waypoints)} waypoints, {turn.committed} committed, {ran} run"


def twins_figure(number: int, twins: Twins) -> Figure:
    """Two strips as a figure for the files."""
    cards = (twins.first, twins.second)

    def panel(card: Card) -> Panel:
        def draw(ax: Axes) -> None:
            _draw_strip(ax, card)

        e = card.episode
        return Panel(
            f"{card.source.label}: {card.outcome}, {e.steps} steps, {e.decisions} decisions",
            draw,
            width_in=9.0,
            height_in=1.55,
        )

    sources = tuple(c.source for c in cards)
    return Figure(
        f"twins-{number}",
        twins.caption,
        tuple(panel(c) for c in cards if c.strip.frames),
        sources,
        columns=1,
    )


def _draw_strip(ax: Axes, card: Card) -> None:
    images = [np.asarray(Picture.open(io.BytesIO(f.jpeg))) for f in card.strip.frames]
    ax.imshow(np.concatenate(images, axis=1))
    dots: list[tuple[float, float, str]] = []
    crosses: list[Point] = []
    for k, frame in enumerate(card.strip.frames):
        for drawn in frame.drawn:
            inside = [(k * SIZE_PX + u, v) for u, v in drawn.path if _inside((u, v))]
            ax.plot([u for u, _ in inside], [v for _, v in inside], color="white", linewidth=0.8)
            dots += [
                (k * SIZE_PX + m.at[0], m.at[1], FATE_COLOURS[m.fate])
                for m in drawn.marks
                if _inside(m.at)
            ]
            ends = [m.stopped_at for m in drawn.marks if m.stopped_at is not None]
            crosses += [(k * SIZE_PX + u, v) for u, v in ends if _inside((u, v))]
    ax.scatter(
        [x for x, _, _ in dots],
        [y for _, y, _ in dots],
        s=5,
        c=[c for _, _, c in dots],
        edgecolors="black",
        linewidths=0.4,
        zorder=3,
    )
    ax.scatter(
        [x for x, _ in crosses],
        [y for _, y in crosses],
        s=16,
        marker="x",
        color=FATE_COLOURS["stopped"],
        zorder=4,
    )
    ax.set_xlim(0, SIZE_PX * len(images))
    ax.set_ylim(SIZE_PX, 0)
    ax.set_axis_off()


def _inside(point: Point) -> bool:
    return 0 <= point[0] <= SIZE_PX and 0 <= point[1] <= SIZE_PX
