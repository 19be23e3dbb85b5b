"""The room's cameras as `Camera`s."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from capex.errors import RigFault
from capex.pose import Array
from capex.worlds.rigs.drivers import Frame
from capex.worlds.rigs.room.wire import Header, RoomLine, ask, reach, unpack


class RoomCamera:
    """One camera over the room's wire; the room draws the newest frame when it is asked for it."""

    def __init__(self, options: Mapping[str, Any], name: str, size: tuple[int, int]):
        self._port, self._name, self._size = int(options["port"]), name, size
        self._depth = bool(options.get("depth", False))
        self._line: RoomLine | None = None
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
        _, matrix = ask(self._line, self._request({"about": True}))
        self._intrinsics = unpack(matrix).reshape(3, 3)

    def latest(self) -> Frame:
        """The newest frame."""
        if self._line is None:
            raise RigFault(f"the room's camera '{self._name}' was not started")
        have = self._frame.number if self._frame else None
        answer, body = ask(self._line, self._request({"have": have, "depth": self._depth}))
        if self._frame is None or answer["number"] != have:
            width, height = self._size
            image = np.frombuffer(body, np.uint8, width * height * 3).reshape(height, width, 3)
            depth = None
            if self._depth:
                depth = np.frombuffer(body, "<f4", width * height, image.size)
                depth = depth.reshape(height, width).astype(np.float32)
            arrived_s = float(answer.get("arrived_s", time.monotonic()))
            number, device_s = int(answer["number"]), float(answer["device_s"])
            self._frame = Frame(image.copy(), number, device_s, arrived_s, depth)
        return self._frame

    def close(self) -> None:
        """Leave the room."""
        if self._line is not None:
            self._line.close()
        self._line = self._frame = None

    def _request(self, more: Header) -> Header:
        return {"kind": "frame", "camera": self._name, "size": self._size, **more}
