"""Pictures of a dataset, decoded one at a time: encoded cells, and videos that hold one episode or
many.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.dataset.inspect.model import Findings, FrameShot
from capex.errors import DamagedFile
from capex.untrusted import picture, read_bytes, within
from capex.worlds.video import decode

UNDECODABLE = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error)


def decode_cells(cells: Iterable[Any], root: Path) -> Iterator[FrameShot]:
    """Pictures of a column: {bytes, path} as the datasets library keeps them, or bytes."""
    for cell in cells:
        content, path = (
            (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, "")
        )
        if content is None and path:
            content = _content(root, path)
        if not isinstance(content, bytes):
            yield FrameShot(
                None, f"the picture {path} is missing" if path else "there is no picture"
            )
            continue
        try:
            shown = picture(content)
            plain = shown.mode in ("RGB", "L", "F") or shown.mode.startswith("I")
            pixels = np.asarray(shown if plain else shown.convert("RGB"))
        except UNDECODABLE as error:
            yield FrameShot(
                None, f"the picture cannot be decoded ({type(error).__name__}: {error})"
            )
            continue
        yield FrameShot(pixels)


def _content(root: Path, path: object) -> bytes | None:
    """The picture file of a dataset that a cell names; None where there is none within it."""
    try:
        return read_bytes(within(root, str(path)))
    except (OSError, ValueError, DamagedFile):
        return None


@dataclass
class _Decoder:
    """A video being read from its beginning."""

    path: Path
    frames: Iterator[tuple[float, npt.NDArray[Any]]]
    ahead: tuple[float, npt.NDArray[Any]] | None = None
    position_s: float = -1.0  # of the last frame taken

    def peek(self) -> tuple[float, npt.NDArray[Any]] | None:
        """The next frame; None at the end."""
        if self.ahead is None:
            self.ahead = next(self.frames, None)
        return self.ahead

    def take(self) -> None:
        """Go on to the frame after."""
        if self.ahead is not None:
            self.position_s, self.ahead = self.ahead[0], None


class Videos:
    """The videos of each camera, each decoded once where its episodes lie in order. `enters`: an
    episode is gone to at once, and what lies before or behind it is not looked at.
    """

    def __init__(self, root: Path, fps: float, findings: Findings, *, enters: bool = False):
        self._root, self._fps, self._findings, self._enters = root, fps, findings, enters
        self._open: dict[str, _Decoder] = {}
        self._stray: dict[Path, int] = {}  # frames that belong to no episode

    def shots(
        self, key: str, path: Path, span_s: tuple[float, float], *, depth: bool = False
    ) -> Iterator[FrameShot]:
        """The frames whose times lie in a span, half a frame early; a FrameShot without pixels ends
        it where the file breaks off.
        """
        (begin_s, end_s), half_s = span_s, 0.5 / self._fps
        decoder = self._open.get(key)
        if decoder is None or decoder.path != path or decoder.position_s > begin_s + half_s:
            self._close(key)
            if not path.is_file():
                yield FrameShot(None, f"{self._name(path)} is missing")
                return
            entered_s = max(0.0, begin_s - half_s) if self._enters else 0.0
            frames = decode(path, depth=depth, from_s=entered_s)
            decoder = self._open[key] = _Decoder(path, frames)
        try:
            for number in count():
                while (frame := decoder.peek()) is not None and frame[0] < begin_s - half_s:
                    self._stray[path] = self._stray.get(path, 0) + 1
                    decoder.take()
                if frame is None or frame[0] >= end_s - half_s:
                    return
                decoder.take()
                yield FrameShot(frame[1], off_s=abs(frame[0] - begin_s - number / self._fps))
        except DamagedFile as damage:
            decoder.frames = iter(())
            yield FrameShot(None, f"{self._name(path)} is damaged: {damage.reason}")

    def close(self) -> None:
        """Decode what no episode asked for, and tell."""
        for key in list(self._open):
            self._close(key)
        for path, stray in self._stray.items():
            held = "1 frame that belongs" if stray == 1 else f"{stray} frames that belong"
            self._findings.warn("pictures", f"{self._name(path)} holds {held} to no episode")
        self._stray.clear()

    def _close(self, key: str) -> None:
        decoder = self._open.pop(key, None)
        if decoder is None or self._enters:
            return
        try:
            while decoder.peek() is not None:
                self._stray[decoder.path] = self._stray.get(decoder.path, 0) + 1
                decoder.take()
        except DamagedFile as damage:
            name = self._name(decoder.path)
            self._findings.add("pictures", f"{name} is damaged: {damage.reason}")

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()
