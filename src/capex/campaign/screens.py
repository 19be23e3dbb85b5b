"""The pictures that a rig takes anyway, as they come, for whoever watches an attempt.

    .writing-PID-0007/live/front.jpg   the newest picture of a camera, replaced as they come
    .writing-PID-0007/live/watched     touched by whoever watches; without it nothing is written

Nothing is captured for it: the newest picture of each camera is copied out of the memory that its
process shares. In lock-step there is no such picture, and a simulated world would have to draw one.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from capex.errors import CapexError
from capex.models.pictures import encode_jpeg
from capex.run.live import LIVE_FOLDER, watched_at
from capex.worlds import Env
from capex.worlds.robots import glimpse

EVERY_S = 1 / 15
LOOK_S = 0.2  # how often it is looked whether somebody watches
WATCHED_S = 3.0  # how long after their last sign somebody still does
LONGEST = 480  # pixels of a picture's longer side


class Screens:
    """Writes while somebody watches, in a thread of its own; of a world on the real clock only."""

    def __init__(self, env: Env, attempt: Path):
        self._env, self._folder, self._attempt = env, attempt / LIVE_FOLDER, attempt
        self._shown: dict[str, bytes] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capex screens", daemon=True)

    def __enter__(self) -> Screens:
        if self._env.spec.real_time:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            watched = time.time() - watched_at(self._attempt) < WATCHED_S
            due = max(due + (EVERY_S if watched else LOOK_S), time.monotonic())
            if watched:
                self._write()

    def _write(self) -> None:
        """One round; what fails is left out, and the attempt itself meets what is wrong."""
        for camera in self._env.spec.cameras:
            scratch = self._folder / f".{camera.name}"
            try:
                size = camera.fitted(LONGEST)
                picture = glimpse(self._env, [camera.name], size)[camera.name]
                content = encode_jpeg(picture)
                if content != self._shown.get(camera.name):  # nothing new, nothing written
                    scratch.write_bytes(content)
                    os.replace(scratch, self._folder / f"{camera.name}.jpg")
                    self._shown[camera.name] = content
            except (CapexError, OSError, KeyError):
                continue
