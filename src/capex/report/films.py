"""Short films that play inside the page: an episode's frames with the plan in force drawn in, as an
animated WebP that needs no script, and its last frame as a still for readers who want no motion.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image as Picture
from PIL import ImageDraw, ImageFont

from capex.dataset.projection import Drawn, Point
from capex.report.cards import Card, Pick
from capex.report.drawing import FATE_COLOURS
from capex.report.strips import Filmer, Strip, StripFrame
from capex.run import read_record

FRAMES = 30  # about 0.15 MB
FRAME_MS, LAST_FRAME_MS = 120, 1600  # the end is held, so that it is seen
QUALITY = 62
FINER = 2  # lines are drawn at so many times the size, then made smaller: no jagged edges
OUTCOME_COLOURS = {True: FATE_COLOURS["done"], False: FATE_COLOURS["stopped"]}
TEXT_PX, MARGIN_PX, DOT_PX, RIM_PX = 17, 7, 4.2, 5


@dataclass(frozen=True)
class PosterFilm:
    """An episode that plays."""

    card: Card
    moving: bytes  # WebP
    still: bytes  # JPEG

    @property
    def speed(self) -> float:
        """How many times faster than the robot it plays."""
        shown = len(self.card.strip.frames) * FRAME_MS / 1000
        return self.card.strip.seconds / shown if shown else 0.0


def make_films(picks: Sequence[Pick]) -> list[PosterFilm]:
    """Render and encode; frames come from saved states, or are what the model saw. An episode of
    which no picture can be made is left out: its strip says why.
    """
    filmer = Filmer()
    films = []
    for source, episode in picks:
        record = read_record(episode.path)
        card = Card(source, episode, record, filmer.strip(episode, record, FRAMES))
        films.append(PosterFilm(card, *_encode(list(_pictures(card)))))
    filmer.close()
    return [film for film in films if film.moving]


def _pictures(card: Card) -> Iterator[Picture.Image]:
    for k, frame in enumerate(card.strip.frames):
        ended = k == len(card.strip.frames) - 1
        yield _picture(frame, card.strip, OUTCOME_COLOURS.get(card.episode.success or False), ended)


def _encode(pictures: Sequence[Picture.Image]) -> tuple[bytes, bytes]:
    if not pictures:
        return b"", b""
    moving, still = io.BytesIO(), io.BytesIO()
    times = [FRAME_MS] * (len(pictures) - 1) + [LAST_FRAME_MS]
    pictures[0].save(
        moving,
        format="WEBP",
        save_all=True,
        append_images=pictures[1:],
        duration=times,
        loop=0,
        quality=QUALITY,
        method=4,
    )
    pictures[-1].save(still, format="JPEG", quality=QUALITY + 10, optimize=True)
    return moving.getvalue(), still.getvalue()


def _picture(frame: StripFrame, strip: Strip, outcome: str | None, ended: bool) -> Picture.Image:
    """A frame with the plan, the robot's time, how far the episode is, and at the end a rim in the
    outcome's colour.
    """
    width, height = (side * FINER for side in frame.size)
    with Picture.open(io.BytesIO(frame.jpeg)) as seen:
        image = seen.convert("RGB").resize((width, height), Picture.Resampling.BICUBIC)
    ink = ImageDraw.Draw(image)
    for drawn in frame.drawn:
        _draw_plan(ink, drawn)
    if strip.seconds:
        text = f"{frame.seconds:.1f} s"
        font = ImageFont.load_default(TEXT_PX * FINER)
        margin = MARGIN_PX * FINER
        ink.text((margin, margin), text, "white", font, stroke_width=FINER + 1, stroke_fill="black")
        along = width * frame.seconds / strip.seconds
        ink.rectangle((0, height - 4 * FINER, along, height), fill="white")
    if ended and outcome:
        ink.rectangle((0, 0, width - 1, height - 1), outline=outcome, width=RIM_PX * FINER)
    return image.resize(frame.size, Picture.Resampling.BOX)


def _draw_plan(ink: ImageDraw.ImageDraw, drawn: Drawn) -> None:
    path = [_finer(point) for point in drawn.path]
    ink.line(path, fill="black", width=4 * FINER, joint="curve")
    ink.line(path, fill="white", width=2 * FINER, joint="curve")
    for mark in drawn.marks:
        (x, y), r, own = _finer(mark.at), DOT_PX * FINER, FATE_COLOURS[mark.fate]
        hollow = mark.fate in ("deferred", "skipped")
        ink.ellipse((x - r - 2, y - r - 2, x + r + 2, y + r + 2), fill="black")
        ink.ellipse((x - r, y - r, x + r, y + r), fill=own)
        if hollow:
            ink.ellipse((x - r / 2, y - r / 2, x + r / 2, y + r / 2), fill="black")
        if mark.stopped_at is not None:
            (sx, sy), arm = _finer(mark.stopped_at), 5 * FINER
            for colour, width in (("black", 5 * FINER), (FATE_COLOURS["stopped"], 3 * FINER)):
                ink.line((sx - arm, sy - arm, sx + arm, sy + arm), fill=colour, width=width)
                ink.line((sx - arm, sy + arm, sx + arm, sy - arm), fill=colour, width=width)


def _finer(point: Point) -> Point:
    return point[0] * FINER, point[1] * FINER
