"""Frames of recorded episodes on demand: drawn again from saved states, or as they were recorded.

One thread draws, since a world and its GL context belong to a thread; what was drawn is kept. A
frame comes with its camera's projection and the tips of that moment, so that a plan can be laid
over it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from capex.dataset.views import Views, open_views
from capex.errors import CapexError, ErrorCode
from capex.method.record import EpisodeRecord
from capex.models.pictures import encode_jpeg
from capex.run import read_record
from capex.run.frames import has_frames
from capex.run.steps import StepArrays, read_steps
from capex.studio.guard import Refused
from capex.worlds.cache import Environments

KEPT_BYTES = 96 * 2**20  # of frames
OPENED_MAX = 4  # episodes whose arrays are kept
AHEAD_DRAWN, AHEAD_RECORDED = 2, 48  # frames beyond the one asked for; a recording is decoded anew
WIDTHS = (192, 320, 480, 640)
T = TypeVar("T")


@dataclass(frozen=True)
class Frame:
    """A moment through a camera."""

    jpeg: bytes
    projection: list[float] | None  # (3, 4), row by row; None where it is not calibrated
    tips: dict[str, list[float]]


@dataclass
class Opened:
    """An episode whose frames are asked for."""

    record: EpisodeRecord
    steps: StepArrays
    recorded: bool
    views: Views | None = None

    @property
    def name(self) -> str:
        """WORLD:TASK."""
        return f"{self.record.world}:{self.record.task}"

    @property
    def ticks(self) -> int:
        """States, the last one included."""
        return len(self.steps["proprio"])


class Stage:
    """Draws for everybody who looks; safe among threads."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="capex stage")
        self._envs = Environments(2)
        self._opened: OrderedDict[Path, Opened] = OrderedDict()
        self._at: dict[str, Path] = {}  # by world, the episode that its environment was reset to
        self._frames: OrderedDict[tuple[Path, str, int, int], Frame] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()

    def cameras(self, episode: Path) -> dict[str, Any]:
        """The cameras of an episode with their sizes, the control rate and how many states."""
        return self._on_stage(lambda: self._cameras(episode))

    def frame(self, episode: Path, camera: str, tick: int, width: int) -> Frame:
        """One frame; those that follow are made along with it."""
        if width not in WIDTHS:
            raise Refused(400, f"the width is {width}; valid: {', '.join(map(str, WIDTHS))}")
        key = episode, camera, tick, width
        with self._lock:
            if (known := self._frames.get(key)) is not None:
                self._frames.move_to_end(key)
                return known
        return self._on_stage(lambda: self._draw(*key))

    def _on_stage(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def _cameras(self, episode: Path) -> dict[str, Any]:
        opened = self._open(episode)
        views = self._views(episode, opened)
        return {
            "cameras": {c.name: {"size": c.size, "kind": c.kind} for c in views.spec.cameras},
            "hz": views.spec.control_hz,
            "ticks": opened.ticks,
        }

    def _draw(self, episode: Path, camera: str, tick: int, width: int) -> Frame:
        with self._lock:
            if (known := self._frames.get((episode, camera, tick, width))) is not None:
                return known
        opened = self._open(episode)
        if tick >= opened.ticks:
            raise Refused(404, f"the episode has {opened.ticks} states; there is no {tick}")
        views = self._views(episode, opened)
        full_width, full_height = views.spec.camera(camera).size
        size = width, max(1, round(width * full_height / full_width))
        ahead = AHEAD_RECORDED if opened.recorded else AHEAD_DRAWN
        ticks = range(tick, min(tick + ahead + 1, opened.ticks))
        for at, images in zip(ticks, views.pictures({camera: size}, ticks), strict=True):
            model = views.camera_model(camera, at, size)
            tips = {n: _rounded(p.position_m) for n, p in views.tips(at).items()}
            projection = None if model is None else _rounded(model.matrix.ravel(), 9)
            self._keep(
                (episode, camera, at, width), Frame(encode_jpeg(images[camera]), projection, tips)
            )
        with self._lock:
            return self._frames[episode, camera, tick, width]

    def _open(self, episode: Path) -> Opened:
        opened = self._opened.get(episode)
        if opened is None:
            steps = read_steps(episode)
            opened = Opened(read_record(episode), steps, has_frames(episode))
            self._opened[episode] = opened
            while len(self._opened) > OPENED_MAX:
                self._opened.popitem(last=False)
        self._opened.move_to_end(episode)
        return opened

    def _views(self, episode: Path, opened: Opened) -> Views:
        """The views of an episode; its world is reset again where another one used it since."""
        shared = None if opened.recorded else opened.name
        if opened.views is None or (shared is not None and self._at.get(shared) != episode):
            try:
                opened.views = open_views(episode, opened.record, opened.steps, self._envs)
            except ImportError as error:
                raise CapexError(
                    f"{opened.name} cannot be drawn here: {error}", code=ErrorCode.NOT_AVAILABLE
                ) from None
            if shared is not None:
                self._at[shared] = episode
        return opened.views

    def _keep(self, key: tuple[Path, str, int, int], frame: Frame) -> None:
        with self._lock:
            if key not in self._frames:
                self._frames[key] = frame
                self._bytes += len(frame.jpeg)
            while self._bytes > KEPT_BYTES:
                _, old = self._frames.popitem(last=False)
                self._bytes -= len(old.jpeg)


def _rounded(values: Any, digits: int = 4) -> list[float]:
    return [round(float(v), digits) for v in values]
