"""The vendor's `software_device` as a D435 in front of a box and a wall, with controls that change its pictures."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyrealsense2 as rs

from capex.worlds.rigs.realsense import RealSenseCamera

SIZE = (64, 36)
SERIAL = "123456789012"
BASELINE_M = 0.05  # depth is seen from so far to the left of colour
FOCAL = {"color": 60.0, "depth": 50.0}
BOX = slice(20, 44)  # its columns in the depth image
NEAR_MM, FAR_MM = 500, 1000
INFO = {
    "serial_number": SERIAL,
    "name": "Software D435",
    "firmware_version": "5.16.0.1",
    "usb_type_descriptor": "3.2",
}
CONTROLS = {
    "exposure": (1, 10000, 166),
    "gain": (0, 128, 64),
    "white_balance": (2800, 6500, 4600),
    "enable_auto_exposure": (0, 1, 1),
    "enable_auto_white_balance": (0, 1, 1),
}


class SoftD435:
    """Delivers pictures whose first pixel tells their number, until it is told otherwise."""

    def __init__(self, serial: str = SERIAL):
        self.device = rs.software_device()
        for key, text in (INFO | {"serial_number": serial}).items():
            self.device.register_info(getattr(rs.camera_info, key), text)
        self.colour, self.depth = (
            self.device.add_sensor(name) for name in ("RGB Camera", "Stereo Module")
        )
        self._modes = {"color": self.colour.add_video_stream(_stream("color", 10, SIZE, 30))}
        for uid, size, fps in ((11, SIZE, 15), (12, (128, 72), 30)):
            self.colour.add_video_stream(_stream("color", uid, size, fps))
        self._modes["depth"] = self.depth.add_video_stream(_stream("depth", 20, SIZE, 30))
        offset = rs.extrinsics()
        offset.rotation, offset.translation = [1, 0, 0, 0, 1, 0, 0, 0, 1], [-BASELINE_M, 0, 0]
        self._modes["depth"].register_extrinsics_to(self._modes["color"], offset)
        self.depth.add_read_only_option(rs.option.depth_units, 0.001)
        for key, (low, high, default) in CONTROLS.items():
            span = rs.option_range()
            span.min, span.max, span.step, span.default = low, high, 1, default
            self.colour.add_option(getattr(rs.option, key), span, True)
            self.colour.set_option(getattr(rs.option, key), default)
        self.device.create_matcher(rs.matchers.default)
        self.number, self.repeats, self.drops, self.plugged = 0, False, 0, True
        threading.Thread(target=self._feed, daemon=True).start()

    def devices(self) -> list[Any]:
        """What is plugged in."""
        return [self.device] if self.plugged else []

    def _feed(self) -> None:
        while self.plugged:
            self.number += not self.repeats
            if self.drops and not self.repeats:
                self.number, self.drops = self.number + self.drops, 0
            self._send(self.colour, "color", self._picture())
            depth = np.full(SIZE[::-1], FAR_MM, np.uint16)
            depth[:, BOX] = NEAR_MM
            self._send(self.depth, "depth", depth)
            time.sleep(0.004)

    def _send(self, sensor: Any, kind: str, pixels: np.ndarray) -> None:
        frame = rs.software_video_frame()
        frame.bpp = 3 if kind == "color" else 2
        frame.pixels, frame.stride = pixels, SIZE[0] * frame.bpp
        frame.timestamp, frame.domain = 1000 / 30 * self.number, rs.timestamp_domain.hardware_clock
        frame.frame_number, frame.profile = self.number, self._modes[kind].as_video_stream_profile()
        if kind == "depth":
            frame.depth_units = 0.001
        sensor.on_video_frame(frame)

    def _picture(self) -> np.ndarray:
        """Grey; the automatic makes it 110 with red as blue, the controls do what a lens would."""
        value = {key: self.colour.get_option(getattr(rs.option, key)) for key in CONTROLS}
        level = (
            110.0 if value["enable_auto_exposure"] else 1.5 * value["exposure"] * value["gain"] / 64
        )
        red = 1.1 if value["enable_auto_white_balance"] else value["white_balance"] / 4000
        picture = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
        picture[...] = np.clip(level * np.array([red, 1.0, 1.0]), 0, 255)
        picture[0, 0] = self.number % 256
        return picture


def _stream(kind: str, uid: int, size: tuple[int, int], fps: int) -> Any:
    lens, stream = rs.intrinsics(), rs.video_stream()
    lens.width, lens.height = size
    lens.fx = lens.fy = FOCAL[kind]
    lens.ppx, lens.ppy = size[0] / 2 - 0.5, size[1] / 2 - 0.5
    lens.model, lens.coeffs = rs.distortion.inverse_brown_conrady, [0.0] * 5
    stream.type, stream.uid, stream.fps, stream.intrinsics = (
        getattr(rs.stream, kind),
        uid,
        fps,
        lens,
    )
    stream.width, stream.height = size
    stream.fmt, stream.bpp = (rs.format.rgb8, 3) if kind == "color" else (rs.format.z16, 2)
    return stream


def soft_camera(options: Mapping[str, Any], name: str, size: tuple[int, int]) -> RealSenseCamera:
    """A driver for a rig file: it is unplugged when the file `unplug` appears."""
    own = dict(options)
    flag, soft = Path(own.pop("unplug")), SoftD435()

    def watch() -> None:
        while not flag.exists():
            time.sleep(0.01)
        soft.plugged = False

    threading.Thread(target=watch, daemon=True).start()
    return RealSenseCamera(own, name, size, soft.devices)
