"""The newest pictures of a camera in memory that its process and the collector share.

The memory is anonymous (multiprocessing's own arena, whose file has no name once it is mapped): it
is gone with the last process that holds it, however that one ended.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from capex.errors import RigFault
from capex.rigs.drivers import Frame

SLOTS = 4  # a picture is overwritten 100 ms after it came, at 30 a second
TRIES = 20
Copied = TypeVar("Copied")


@dataclass(frozen=True)
class FrameStamp:
    """A picture's number and times, without its pixels."""

    number: int
    device_s: float
    arrived_s: float


class FrameRing:
    """One writer, any readers. Each slot carries the sequence number of its picture, -1 while it is
    written, so that a reader notices a torn picture and takes a newer one.
    """

    def __init__(self, size: tuple[int, int], depth: bool):
        self._layout = _layout(size, depth)
        context = multiprocessing.get_context("spawn")
        self._memory = context.RawArray(ctypes.c_byte, self._layout.itemsize)

    def __getstate__(self) -> dict[str, Any]:
        return {"_layout": self._layout, "_memory": self._memory}

    @property
    def _view(self) -> npt.NDArray[np.void]:
        view: npt.NDArray[np.void] = np.frombuffer(memoryview(self._memory), self._layout)
        return view.reshape(())

    def put(self, frame: Frame) -> None:
        """Add a picture; only the camera's process does."""
        view = self._view
        sequence = int(view["newest"]) + 1
        slot = view["slots"][sequence % SLOTS]
        slot["sequence"] = -1
        slot["image"][...] = frame.image
        slot["number"], slot["device_s"] = frame.number, frame.device_s
        slot["arrived_s"] = frame.arrived_s
        if frame.depth_m is not None and "depth_m" in slot.dtype.names:
            slot["depth_m"][...] = frame.depth_m
        slot["sequence"] = sequence
        view["newest"] = sequence

    def stamp(self) -> FrameStamp | None:
        """Number and times of the newest picture; None before the first."""
        return self._read(
            lambda slot: FrameStamp(
                int(slot["number"]), float(slot["device_s"]), float(slot["arrived_s"])
            )
        )

    def latest(self) -> Frame | None:
        """The newest picture; None before the first."""

        def copy(slot: Any) -> Frame:
            depth_m = slot["depth_m"].copy() if "depth_m" in slot.dtype.names else None
            return Frame(
                slot["image"].copy(),
                int(slot["number"]),
                float(slot["device_s"]),
                float(slot["arrived_s"]),
                depth_m,
            )

        return self._read(copy)

    def _read(self, copy: Callable[[Any], Copied]) -> Copied | None:
        view = self._view
        for _ in range(TRIES):
            sequence = int(view["newest"])
            if not sequence:
                return None
            slot = view["slots"][sequence % SLOTS]
            copied = copy(slot)
            if int(slot["sequence"]) == sequence:
                return copied
        raise RigFault("a camera's pictures come faster than they can be read")


def _layout(size: tuple[int, int], depth: bool) -> np.dtype[np.void]:
    width, height = size
    fields: list[Any] = [("sequence", "i8"), ("number", "i8")]
    fields += [("device_s", "f8"), ("arrived_s", "f8"), ("image", "u1", (height, width, 3))]
    if depth:
        fields.append(("depth_m", "f4", (height, width)))
    slot = np.dtype(fields, align=True)
    return np.dtype([("newest", "i8"), ("slots", slot, (SLOTS,))], align=True)
