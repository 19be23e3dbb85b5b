"""A camera in a process of its own: drained all the time into shared memory, its pictures recorded
there too, so that the control loop moves no pixels.

    collector -> process   ("record", path, form, hz), ("mark", number), ("finish",), ("end",)
    process -> collector   ("ready", (intrinsics, about)), ("recorded", RecordedCount),
                           ("fault", (sentence, RecordedCount or None))
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import CapexError, RigFault
from capex.pose import Array
from capex.processes import Worker, ending, set_niceness, spawn
from capex.rigs.cameras.frame_buffer import FrameRing, FrameStamp
from capex.rigs.drivers import Camera, Frame, about
from capex.worlds import Image
from capex.worlds.frame_files import Form, FrameFile, open_file

WARM_UP = 5  # pictures thrown away: a device's first ones are dark or of the last session
START_S = 20.0  # a device that gives no picture for so long after its start gives none
TURN_S = 40.0  # before that: other cameras may start first, and a refused start is tried again
FROZEN_S = 2.0  # longer than any exposure, and than a busy machine keeps a process waiting
POLL_S = 0.002
REMEMBERED = 30  # pictures that can still be marked: a second at 30 a second
WAITING = 200  # pictures that may wait for the disk, 180 MB at 640x480
FINISH_S = 60.0
NICENESS, WRITING_NICENESS = 5, 15  # ticks come before draining, and draining before encoding


@dataclass(frozen=True)
class RecordedCount:
    """What a camera's process wrote of one recording."""

    frames: int
    lost: int = 0  # marked, but never written
    missed: int = 0  # numbers that the device skipped meanwhile
    fault: str = ""


class CameraProcess:
    """The collector's side: a `Camera` whose device lives in another process."""

    def __init__(
        self, name: str, size: tuple[int, int], depth: bool, build: Callable[[], Camera]
    ) -> None:
        self._name, self._size, self._depth, self._build = name, size, depth, build
        self._worker: Worker | None = None
        self._ring: FrameRing | None = None
        self._intrinsics: Array | None = None
        self.about = ""
        self._fault = f"camera {name} has not been started"
        self._starting = False  # launched, and its first picture has not been waited for yet
        self._written: RecordedCount | None = None  # of a recording that a fault ended
        # A watcher looks from a thread of its own, and may not take what another one waits for.
        self._talking = threading.RLock()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self._size

    @property
    def intrinsics(self) -> Array | None:
        """As the device says; None where it does not know them."""
        return self._intrinsics

    def launch(self) -> None:
        """Begin the process without waiting for its first picture, where none runs well."""
        if self._starting or (self._worker is not None and not self._fault):
            return
        self.close()
        self._ring = FrameRing(self._size, self._depth)
        self._worker = spawn(_run, self._name, self._size, self._ring, self._build)
        self._starting = True

    def start(self) -> None:
        """Return with the first picture there; a camera that was lost is begun anew."""
        self.launch()
        if not self._starting:
            return
        with self._talking:
            self._starting, self._fault = False, ""
            kind, content = self._receive(TURN_S + START_S, f"camera {self._name} gave no picture")
        self._intrinsics, self.about = content if kind == "ready" else (None, "")

    def latest(self) -> Frame:
        """The newest picture, not older than FROZEN_S."""
        frame: Frame = self._fresh(self._running().latest())
        return frame

    def stamp(self) -> FrameStamp:
        """Number and times of the newest picture."""
        stamp: FrameStamp = self._fresh(self._running().stamp())
        return stamp

    def record(self, path: Path, form: Form, hz: float) -> None:
        """Begin to write the pictures that are marked from now on."""
        self._written = None
        self._send("record", path, form, hz)

    def mark(self, number: int) -> None:
        """Write the picture of that number, one of the last second."""
        self._send("mark", number)

    def finish(self) -> RecordedCount:
        """End the recording; what was marked is on disk, also where the device was lost."""
        if self._written is not None:
            return replace(self._written, fault=self._fault)
        with self._talking:
            self._send("finish")
            silent = f"camera {self._name} did not finish its recording"
            _, written = self._receive(FINISH_S, silent)
        assert isinstance(written, RecordedCount)
        return written

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            with contextlib.suppress(OSError):
                self._worker.pipe.send(("end",))
                self._worker.process.join(1.0)
            self._worker.stop()
        self._worker = self._ring = None
        self._starting = False
        self._fault = self._fault or f"camera {self._name} is closed"

    def _running(self) -> FrameRing:
        """The pictures of a process that is there and said nothing bad."""
        if self._fault or self._worker is None or self._ring is None:
            raise RigFault(self._fault)
        with self._talking:
            if self._worker.pipe.poll() or not self._worker.process.is_alive():
                self._receive(0.0, f"camera {self._name} said nothing")
        return self._ring

    def _fresh(self, picture: Any) -> Any:
        if picture is None:
            raise RigFault(f"camera {self._name} has no picture yet")
        age_s = time.monotonic() - picture.arrived_s
        if age_s > FROZEN_S:
            raise RigFault(f"camera {self._name} has shown the same picture for {age_s:.1f} s")
        return picture

    def _send(self, *message: Any) -> None:
        self._running()
        assert self._worker is not None
        try:
            self._worker.pipe.send(message)
        except OSError:
            self._receive(0.0, f"camera {self._name} cannot be reached")

    def _receive(self, patience_s: float, silent: str) -> tuple[str, Any]:
        """The next message; a fault, a death or silence is raised and remembered."""
        assert self._worker is not None
        try:
            if not self._worker.pipe.poll(patience_s) and self._worker.process.is_alive():
                self._fault = f"{silent} within {patience_s:g} s"
                raise RigFault(self._fault)
            kind, content = self._worker.pipe.recv()
        except (EOFError, OSError):
            how = ending(self._worker.process)
            self._fault = f"the process of camera {self._name} ended ({how})"
            raise RigFault(self._fault) from None
        if kind == "fault":
            self._fault, self._written = content
            raise RigFault(self._fault)
        return kind, content


class _Device:
    """The process's side."""

    def __init__(self, name: str, size: tuple[int, int], ring: FrameRing, camera: Camera):
        self._name, self._size, self._ring, self._camera = name, size, ring, camera
        self._recent: deque[Frame] = deque(maxlen=REMEMBERED)
        self._recording: _Writer | None = None
        self._missed = 0
        self.ended = threading.Event()

    def drain(self, ready: Callable[[], None]) -> None:
        """Take every picture of the device until the end."""
        last, taken = None, 0
        patience_s = time.monotonic() + START_S
        while not self.ended.is_set():
            try:
                frame = self._camera.latest()
            except RigFault:
                if taken or time.monotonic() > patience_s:
                    raise
                time.sleep(POLL_S)
                continue
            if frame.number == last:
                time.sleep(POLL_S)
                continue
            arrived_s = time.monotonic()
            self._missed += max(0, frame.number - last - 1) if last is not None else 0
            last, taken = frame.number, taken + 1
            if taken <= WARM_UP:
                continue
            self._check(frame.image)
            frame = replace(frame, image=np.array(frame.image), arrived_s=arrived_s)
            self._recent.append(frame)
            self._ring.put(frame)
            if taken == WARM_UP + 1:
                ready()

    def _check(self, image: Image) -> None:
        width, height = self._size
        if image.shape != (height, width, 3) or image.dtype != np.uint8:
            given = "x".join(map(str, image.shape[1::-1]))
            raise RigFault(
                f"camera {self._name} gives pictures of {given}; the rig file says {width}x{height}"
            )

    def obey(self, pipe: Connection) -> None:
        """Do what the collector says until it ends or says so."""
        try:
            while not self.ended.is_set():
                kind, *content = pipe.recv()
                if kind == "record":
                    path, form, hz = content
                    self._missed = 0
                    self._recording = _Writer(partial(open_file, path, form, self._size, hz))
                elif kind == "mark" and self._recording is not None:
                    (number,) = content
                    recent = [f.image for f in tuple(self._recent) if f.number == number]
                    self._recording.add(recent[0] if recent else None)
                elif kind == "finish":
                    pipe.send(("recorded", self.finish()))
                elif kind == "end":
                    break
        except (EOFError, OSError):
            pass
        self.ended.set()

    def finish(self) -> RecordedCount | None:
        """End the recording under way, if there is one."""
        recording, self._recording = self._recording, None
        return None if recording is None else replace(recording.finish(), missed=self._missed)


class _Writer:
    """Encodes marked pictures in a thread: nobody waits for it but `finish`."""

    def __init__(self, open_: Callable[[], FrameFile]):
        self._open = open_
        self._waiting: queue.Queue[Image | None] = queue.Queue()
        self._lost, self._frames, self._fault = 0, 0, ""
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def add(self, image: Image | None) -> None:
        """The next picture. One that is gone, or finds too many before it, is lost; the one before
        it is repeated, so that later ones keep their places.
        """
        late = self._waiting.qsize() >= WAITING
        self._lost += image is None or late
        self._waiting.put(np.empty(0, np.uint8) if image is None or late else image)

    def finish(self) -> RecordedCount:
        """Wait for the last picture."""
        self._waiting.put(None)
        self._thread.join()
        return RecordedCount(self._frames, self._lost, fault=self._fault)

    def _write(self) -> None:
        set_niceness(WRITING_NICENESS)
        try:
            file, last = self._open(), None
            while (image := self._waiting.get()) is not None:
                last = image if image.size else last
                if last is not None:
                    file.add(last)
                    self._frames += 1
            file.close()
        except Exception as error:  # a full disk, an encoder that fails: whoever finishes is told
            self._fault = str(error) or type(error).__name__


def _run(
    pipe: Connection, name: str, size: tuple[int, int], ring: FrameRing, build: Callable[[], Camera]
) -> None:
    """What the process does."""
    set_niceness(NICENESS)
    camera: Camera | None = None
    device: _Device | None = None
    try:
        camera = build()
        camera.start()
        device = _Device(name, size, ring, camera)
        obeying = threading.Thread(target=device.obey, args=(pipe,), daemon=True)
        obeying.start()
        known = camera.intrinsics, about(camera)
        device.drain(lambda: pipe.send(("ready", known)))
    except Exception as error:
        bug = f"camera {name} failed:\n{traceback.format_exc()}"
        sentence = str(error) if isinstance(error, CapexError) else bug
        with contextlib.suppress(OSError):
            pipe.send(("fault", (sentence, device.finish() if device is not None else None)))
    finally:
        if camera is not None:
            camera.close()
