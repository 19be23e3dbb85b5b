"""The newest pictures of a rig, for pages that show an attempt.

    .writing-PID-0007/live/front.jpg   the newest picture of a camera, replaced as they come
    .writing-PID-0007/live/watched     touched by a page; without it nothing is written

Nothing is captured for it: the newest picture of each camera is copied out of the memory that its
process shares. In lock-step there is no such picture, and a simulated world would have to draw one.
"""

from __future__ import annotations

import os
import threading
import time

import numpy as np
from PIL import Image as PillowImage

from capex.campaign.extensions import Attempt, CampaignExtension
from capex.errors import CapexError
from capex.models.pictures import encode_jpeg
from capex.run.live import LIVE_FOLDER, watched_at
from capex.worlds import Env, Image, Start
from capex.worlds.robots import latest_images

EVERY_S = 1 / 15
LOOK_S = 0.2  # how often it is looked whether somebody watches
WATCHED_S = 3.0  # how long after their last sign somebody still does
LONGEST = 640  # pixels of a picture's longer side, about: a larger one is divided by a whole number


class Screens(CampaignExtension):
    """Writes while somebody watches, in a thread of its own, in worlds on the real clock; from the
    moment when the world is prepared: before, its cameras may not be open.
    """

    def __init__(self, attempt: Attempt):
        self._env, self._attempt = attempt.env, attempt.folder
        self._folder = attempt.folder / LIVE_FOLDER
        self._shown: dict[str, bytes] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def prepare(self, env: Env, start: Start) -> None:
        if env.spec.real_time and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="capex screens", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._over.set()
        if self._thread is not None:
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
                picture = latest_images(self._env, [camera.name], camera.size)[camera.name]
                content = encode_jpeg(reduced(picture))
                if content != self._shown.get(camera.name):  # nothing new, nothing written
                    scratch.write_bytes(content)
                    os.replace(scratch, self._folder / f"{camera.name}.jpg")
                    self._shown[camera.name] = content
            except (CapexError, OSError, KeyError):
                continue


def reduced(picture: Image) -> Image:
    """A picture that is no larger than a page needs; most are left as they are, since scaling one
    takes several times as long as encoding it.
    """
    factor = round(max(picture.shape[:2]) / LONGEST)
    if factor < 2:
        return picture
    return np.asarray(PillowImage.fromarray(picture).reduce(factor))
