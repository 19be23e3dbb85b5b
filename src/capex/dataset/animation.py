"""A moving picture of an episode with its plans drawn into the robot's views.

At each decision the committed waypoints appear, filled, then the deferred tail, hollow, each in the
colour of its calibrated confidence; then the robot moves. Frames are rendered again from saved
states, or those that were recorded; nothing is simulated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image as Picture
from PIL import ImageDraw, ImageFont

from capex.dataset.film import of_height, open_episode
from capex.dataset.frames import plans_of
from capex.dataset.projection import Drawn, Tips, project_plan, tips_at
from capex.dataset.views import Views
from capex.errors import CapexError, ErrorCode, printable
from capex.method.record import EpisodeRecord, Turn
from capex.run.steps import StepArrays
from capex.worlds import Image
from capex.worlds.video import Segment, pictures

SUFFIXES = (".webp", ".gif", ".mp4")
VIEW_PX, GAP_PX, HEAD_PX, FOOT_PX, MARGIN_PX = 320, 4, 32, 54, 10
WIDTH_MIN_PX = 644  # for the texts, where a robot has one camera
FRAME_S = 0.08  # short enough to look like motion, long enough for a small file
# On screen: the view that the decision was made from, its committed waypoints, all of the plan.
BARE_S, COMMITTED_S, PLAN_S, END_S = 0.2, 0.3, 0.6, 1.8
VIDEO_FPS, VIDEO_CRF = 25, 20
WEBP = {"quality": 70, "method": 4, "minimize_size": False, "allow_mixed": False}
SMOOTH = 3  # marks are drawn so many times larger, then reduced
RADIUS_PX, LINE_PX = 7.0, 2.2
SMALL, LARGE = 13, 16  # letters
PAPER, INK, MUTED, HALO = (24, 26, 30), (240, 240, 240), (170, 174, 182), (0, 0, 0, 190)
# Plasma at 0, 0.25, .. 1: its lightness rises evenly, so that nobody has to tell hues apart.
CONFIDENCE = ((13, 8, 135), (126, 3, 168), (204, 71, 120), (248, 149, 64), (240, 249, 33))
NO_CONFIDENCE = (225, 225, 225)
Colour = tuple[int, int, int]


def confidence_colour(p: float | None) -> Colour:
    """The colour of a confidence from 0 to 1; a light grey where none was stated."""
    if p is None:
        return NO_CONFIDENCE
    at = np.linspace(0, 1, len(CONFIDENCE))
    red, green, blue = (round(float(np.interp(p, at, row))) for row in np.transpose(CONFIDENCE))
    return red, green, blue


@dataclass(frozen=True)
class Shot:
    """One frame of the film, and how long it stays."""

    picture: Picture.Image
    seconds: float


def write_animation(episode: Path, out: Path, *, speed: float = 3.0) -> Path:
    """Film an episode with its plans as a WebP or GIF that loops, or as an MP4; between decisions
    the robot moves `speed` times as fast as it did.
    """
    if out.suffix not in SUFFIXES:
        raise CapexError(
            f"'{out}' names no moving picture; its name must end in {', '.join(SUFFIXES)}",
            code=ErrorCode.BAD_SETTING,
        )
    if not speed > 0:
        raise CapexError(f"--speed is {speed:g}; it must be above 0", code=ErrorCode.BAD_SETTING)
    with open_episode(episode) as (record, steps, views):
        shots = list(_Film(record, steps, views).shots(speed))
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == ".mp4":
        _save_video(shots, out)
    else:
        first, *rest = (s.picture for s in shots)
        durations = [round(1000 * s.seconds) for s in shots]
        options = WEBP if out.suffix == ".webp" else {"optimize": True}
        first.save(out, save_all=True, append_images=rest, duration=durations, loop=0, **options)
    return out


def _save_video(shots: Sequence[Shot], out: Path) -> None:
    segment = Segment(out, shots[0].picture.size, VIDEO_FPS, pictures(VIDEO_CRF))
    for shot in shots:
        for _ in range(max(1, round(VIDEO_FPS * shot.seconds))):
            segment.add(np.asarray(shot.picture))
    segment.close()


@dataclass(frozen=True)
class _Moment:
    tick: int
    seconds: float
    turn: Turn | None  # whose plan is drawn
    tips: Tips
    shown: int | None = None


class _Film:
    """An episode that is being drawn."""

    def __init__(self, record: EpisodeRecord, steps: StepArrays, views: Views):
        self._record, self._steps, self._views = record, steps, views
        self._sizes = {c.name: of_height(c, VIEW_PX) for c in views.spec.cameras}
        self._plans = plans_of(record, steps)

    def shots(self, speed: float) -> Iterator[Shot]:
        """The film in order."""
        moments = list(self._moments(speed))
        pictures = self._views.pictures(self._sizes, [m.tick for m in moments])
        for moment, images in zip(moments, pictures, strict=True):
            yield Shot(self._draw(moment, images), moment.seconds)

    def _moments(self, speed: float) -> Iterator[_Moment]:
        starts = [int(tick) for tick in self._steps["plan_starts"]]
        last = len(self._steps["states"]) - 1
        hz = self._views.spec.control_hz
        every = max(1, round(speed * hz * FRAME_S))
        for turn, tick, end in zip(self._plans, starts, [*starts[1:], last], strict=True):
            tips = tips_at(self._views, tick)
            yield _Moment(tick, BARE_S, turn, tips, shown=0)
            if turn.committed < len(turn.waypoints):
                yield _Moment(tick, COMMITTED_S, turn, tips, shown=turn.committed)
            yield _Moment(tick, PLAN_S, turn, tips)
            for later in range(tick + every, end, every):
                yield _Moment(later, every / hz / speed, turn, tips)
        yield _Moment(last, END_S, None, {})

    def _draw(self, moment: _Moment, images: Mapping[str, Image]) -> Picture.Image:
        """All views at a moment with the first `shown` waypoints of the plan, or all of them."""
        turn, shown, sizes = moment.turn, moment.shown, self._sizes
        width = sum(size[0] + GAP_PX for size in sizes.values()) - GAP_PX
        sheet = Picture.new("RGB", (max(width, WIDTH_MIN_PX), HEAD_PX + VIEW_PX + FOOT_PX), PAPER)
        left = 0
        for name, size in sizes.items():
            view = Picture.fromarray(images[name])
            if turn is not None:
                model = self._views.camera_model(name, moment.tick, size)
                for drawn in project_plan(turn, moment.tips, model):
                    view = draw_plan(view, drawn, turn, shown)
            _write(ImageDraw.Draw(view), (7, 5), name, SMALL, INK, halo=True)
            sheet.paste(view, (left, HEAD_PX))
            left += size[0] + GAP_PX
        self._caption(sheet, turn, shown)
        return sheet

    def _caption(self, sheet: Picture.Image, turn: Turn | None, shown: int | None) -> None:
        """Above the views what was to be done, below them the decision or the end."""
        record, pen, width = self._record, ImageDraw.Draw(sheet), sheet.width
        who = record.model + (" (stand-in)" if record.stand_in else "")
        right = f"{record.task}, start {record.start}, {record.arm} by {who}"
        _write(pen, (width - MARGIN_PX, 9), right, SMALL, MUTED, anchor="ra")
        room = width - 3 * MARGIN_PX - pen.textlength(right, ImageFont.load_default(SMALL))
        told = record.instruction
        while told and pen.textlength(told, ImageFont.load_default(LARGE)) > room:
            told = told.removesuffix("..")[:-1] + ".."
        _write(pen, (MARGIN_PX, 7), told, LARGE, INK)
        below = HEAD_PX + VIEW_PX
        if turn is None:
            _write(pen, (MARGIN_PX, below + 6), _ending(record), LARGE, INK)
        else:
            first = f"Decision {turn.decision} of {record.decisions}"
            _write(pen, (MARGIN_PX, below + 6), first, LARGE, INK)
            if shown != 0:
                _write(pen, (MARGIN_PX, below + 30), _told(turn), SMALL, MUTED)
        _legend(sheet, width - MARGIN_PX, below)


def _told(turn: Turn) -> str:
    """What is done with a plan, in a few words."""
    total, tail = len(turn.waypoints), len(turn.waypoints) - turn.committed
    if not total:
        return "no motion"
    if all(w.waypoint.base is not None for w in turn.waypoints):
        return "drives its base"
    waypoints = f"{total} waypoint" + ("s" if total > 1 else "")
    if not tail:
        return f"plans {waypoints} and runs {'all of them' if total > 1 else 'it'}"
    return f"plans {waypoints}, runs {turn.committed}, defers {tail} until it has looked again"


def _ending(record: EpisodeRecord) -> str:
    ended = {True: "Success", False: "No success", None: "Not judged"}[record.success]
    return f"{ended} after {record.steps} steps and {record.decisions} decisions"


def draw_plan(view: Picture.Image, drawn: Drawn, turn: Turn, shown: int | None) -> Picture.Image:
    """The view with a plan over it: lines first, then marks, the first waypoint on top."""
    limit = len(turn.waypoints) if shown is None else shown
    marks = [m for m in drawn.marks if m.place <= limit]
    if not marks:
        return view
    begin = drawn.path[: len(drawn.path) - len(drawn.marks)]
    path = [*begin, *(m.at for m in marks)]
    layer = Picture.new("RGBA", (view.width * SMOOTH, view.height * SMOOTH))
    pen = ImageDraw.Draw(layer)
    line = [(x * SMOOTH, y * SMOOTH) for x, y in path]
    pen.line(line, HALO, round((LINE_PX + 2) * SMOOTH), joint="curve")
    pen.line(line, (255, 255, 255, 255), round(LINE_PX * SMOOTH), joint="curve")
    for mark in reversed(marks):
        colour = confidence_colour(turn.waypoints[mark.place - 1].calibrated)
        _mark(pen, mark.at, colour, filled=mark.place <= turn.committed)
    reduced = layer.resize(view.size, Picture.Resampling.LANCZOS)
    return Picture.alpha_composite(view.convert("RGBA"), reduced).convert("RGB")


def _mark(
    pen: ImageDraw.ImageDraw, at: tuple[float, float], colour: Colour, *, filled: bool
) -> None:
    """A waypoint on a layer: a disc, or a ring through which the view is seen."""
    rings: list[tuple[float, tuple[int, ...]]] = [
        (RADIUS_PX + 1.4, HALO),
        (RADIUS_PX + 0.6, (255, 255, 255, 255)),
        (RADIUS_PX - 0.6, colour),
    ]
    if not filled:
        rings += [(RADIUS_PX - 3.2, (0, 0, 0, 0))]
    x, y = at
    for radius, fill in rings:
        box = [SMOOTH * v for v in (x - radius, y - radius, x + radius, y + radius)]
        pen.ellipse(box, fill=fill)


LEGEND_PX = (340, 18)
BAR_PX = (92, 8)  # width and height of the scale of confidences


def _legend(sheet: Picture.Image, right: int, below: int) -> None:
    """Filled and hollow, and the scale of confidences, at the right of the line below the views."""
    width, height = LEGEND_PX
    layer = Picture.new("RGBA", (width * SMOOTH, height * SMOOTH))
    pen, middle, bar = ImageDraw.Draw(layer), height / 2, width - BAR_PX[0] - 14
    for x, filled in ((8, True), (72, False)):
        _mark(pen, (x, middle), confidence_colour(0.75), filled=filled)
    for k in range(BAR_PX[0] * SMOOTH):
        colour = confidence_colour(k / (BAR_PX[0] * SMOOTH - 1))
        x, top = bar * SMOOTH + k, (middle - BAR_PX[1] / 2) * SMOOTH
        pen.line([(x, top), (x, top + BAR_PX[1] * SMOOTH)], colour)
    reduced = layer.resize(LEGEND_PX, Picture.Resampling.LANCZOS)
    left, top = right - width, below + 9
    sheet.paste(reduced, (left, top), reduced)
    text = ImageDraw.Draw(sheet)
    for x, words in ((20, "runs"), (84, "deferred"), (bar - 12, "0"), (width - 8, "1")):
        _write(text, (left + x, top + 1), words, SMALL, MUTED)
    centre = left + bar + BAR_PX[0] // 2
    _write(text, (centre, top + 21), "calibrated confidence", SMALL, MUTED, anchor="ma")


def _write(
    pen: ImageDraw.ImageDraw,
    at: tuple[float, float],
    text: str,
    size: int,
    colour: Colour,
    *,
    anchor: str = "la",
    halo: bool = False,
) -> None:
    font = ImageFont.load_default(size)
    stroke = 2 if halo else 0
    pen.text(at, printable(text), colour, font, anchor, stroke_width=stroke, stroke_fill="black")
