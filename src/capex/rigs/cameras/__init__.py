"""The cameras of a rig: found by name, and each in a process of its own where time is real."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture

from capex.errors import RigFault
from capex.pose import Array
from capex.rigs.cameras.process import CameraProcess
from capex.rigs.drivers import CAMERA_DRIVERS, Camera, Frame, RigClock, load_driver, require_driver
from capex.rigs.rigfile import CameraEntry, RigFile


def open_cameras(rig: RigFile, clock: RigClock) -> dict[str, Camera]:
    """Every camera of a rig, delivering pictures. On the real clock each is drained by a process of
    its own; in lock-step it is asked directly, and draws at the room's time.
    """
    for entry in rig.cameras:
        require_driver(entry.driver, CAMERA_DRIVERS)
    cameras: dict[str, Camera] = {}
    with contextlib.ExitStack() as opened:
        for entry in rig.cameras:
            build = functools.partial(build_camera, entry)
            cameras[entry.name] = camera = (
                build()
                if clock.lock_step
                else CameraProcess(entry.name, entry.size, entry.depth, build)
            )
            opened.callback(camera.close)
            if isinstance(camera, CameraProcess):
                camera.launch()  # all at once: a process takes a second to begin
        for camera in cameras.values():
            camera.start()
        opened.pop_all()
    return cameras


def build_camera(entry: CameraEntry) -> Camera:
    """The driver of a camera, not started; its options say depth where the file does."""
    make = load_driver(entry.driver, CAMERA_DRIVERS)
    options = {"depth": True, **entry.options} if entry.depth else entry.options
    camera: Camera = make(options, entry.name, entry.size)
    return camera


class ReplayCamera:
    """Plays stored pictures in a circle on the machine's clock. Options: `folder` of PNG or JPEG
    images, or an `npz` file with `images` (N, height, width, 3); `fps`, 30 by default.
    """

    intrinsics: Array | None = None

    def __init__(self, options: Mapping[str, Any], name: str, size: tuple[int, int]):
        self._name, self._options = name, options
        self.size = size
        self._fps = float(options.get("fps", 30.0))
        self._images: npt.NDArray[np.uint8] = np.zeros((0, size[1], size[0], 3), np.uint8)
        self._began_s = math.inf

    def start(self) -> None:
        """Read the pictures into memory; the first one is taken now."""
        try:
            self._images = self._read()
        except (OSError, ValueError, KeyError) as error:
            raise RigFault(f"camera {self._name} has nothing to replay ({error})") from None
        if not len(self._images):
            raise RigFault(f"camera {self._name} has nothing to replay")
        self._began_s = time.monotonic()

    def latest(self) -> Frame:
        """The picture that is due."""
        now_s = time.monotonic()
        if now_s < self._began_s:
            raise RigFault(f"camera {self._name} has not been started")
        number = int((now_s - self._began_s) * self._fps)
        image = self._images[number % len(self._images)]
        return Frame(image, number, self._began_s + number / self._fps, now_s)

    def close(self) -> None:
        """Forget the pictures."""
        self._images = self._images[:0]
        self._began_s = math.inf

    def _read(self) -> npt.NDArray[np.uint8]:
        if "npz" in self._options:
            with np.load(self._options["npz"], allow_pickle=False) as stored:
                return np.asarray(stored["images"], np.uint8)
        folder = Path(self._options["folder"])
        paths = sorted(p for p in folder.iterdir() if p.suffix in (".png", ".jpg", ".jpeg"))
        return np.stack([np.asarray(Picture.open(p).convert("RGB")) for p in paths])
