"""The room's cameras as `Camera`s."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from capex.errors import RigFault
from capex.pose import Array
from capex.rigs.drivers import Depth, Frame
from capex.rigs.twins.wire import Header, RoomLine, ask, reach, unpack
from capex.worlds import Image


class RoomCamera:
    """One camera over the room's wire; the room draws the newest frame when it is asked for it."""

    def __init__(self, options: Mapping[str, Any], name: str, size: tuple[int, int]):
        self._port, self._name, self._size = int(options["port"]), name, size
        self._depth = bool(options.get("depth", False))
        self._line: RoomLine | None = None
        self._lock_step = False
        self._frame: Frame | None = None
        self._intrinsics: Array | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self._size

    @property
    def intrinsics(self) -> Array | None:
        """(3,3) from the room once it was reached."""
        return self._intrinsics

    def start(self) -> None:
        """Reach the room, also again after the camera was lost."""
        self.close()
        self._line = reach(self._port, f"the room's camera '{self._name}'")
        answer, matrix = ask(self._line, self._request({"about": True}))
        self._lock_step = "arrived_s" in answer  # else frames come by themselves
        self._intrinsics = unpack(matrix).reshape(3, 3)

    def latest(self) -> Frame:
        """The newest frame."""
        have = self._frame.number if self._frame else None
        at_once = self._depth and not self._lock_step
        answer, image, depth = self._ask(have, at_once)
        if self._frame is None or answer["number"] != have:
            arrived_s = float(answer.get("arrived_s", time.monotonic()))
            number, device_s = int(answer["number"]), float(answer["device_s"])
            later = functools.cache(functools.partial(self._depth_of, number))
            self._frame = Frame(
                *(image, number, device_s, arrived_s),
                later if self._depth and self._lock_step else depth,
            )
        return self._frame

    def _depth_of(self, number: int) -> Depth:
        """The depth of a frame that is still the newest: in lock-step it is until the next tick."""
        answer, _, depth = self._ask(None, depth=True)
        if answer["number"] != number or depth is None:
            raise RigFault(f"the depth of frame {number} of camera '{self._name}' is gone")
        return depth

    def _ask(self, have: int | None, depth: bool) -> tuple[Header, Image, Depth | None]:
        if self._line is None:
            raise RigFault(f"the room's camera '{self._name}' was not started")
        answer, body = ask(self._line, self._request({"have": have, "depth": depth}))
        (width, height), colours = self._size, 3 * self._size[0] * self._size[1]
        if not body:  # the frame that we have
            return answer, np.empty((0, 0, 3), np.uint8), None
        image = np.frombuffer(body, np.uint8, colours).reshape(height, width, 3).copy()
        if not depth:
            return answer, image, None
        metres = np.frombuffer(body, "<f4", width * height, colours)
        return answer, image, metres.reshape(height, width).astype(np.float32)

    def close(self) -> None:
        """Leave the room."""
        if self._line is not None:
            self._line.close()
        self._line = self._frame = None

    def _request(self, more: Header) -> Header:
        return {"kind": "frame", "camera": self._name, "size": self._size, **more}
