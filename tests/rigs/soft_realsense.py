"""The vendor's `software_device` as a D435 in front of a box and a wall, with controls that change its pictures.

It has the real ones' defect, too: while one camera of a machine is being started, the vendor's library fails for every other one.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyrealsense2 as rs

from capex.rigs.cameras.realsense import RealSenseCamera

SIZE = (64, 36)
BUSY = "xioctl(VIDIOC_S_FMT) failed, errno=16 Last Error: Device or resource busy"
POWER = "failed to set power state"
OPENING_S = 0.3  # from open to the first picture; a real one takes longer
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


class Bus:
    """The USB ports of a machine, on which one device at a time can be started. `log` has every try, of all processes.

    `busy`: how many times this device refuses to open though nobody else is being started, and `unlisted`: to be listed.
    """

    def __init__(self, log: Path, busy: int = 0, unlisted: int = 0, opening_s: float = OPENING_S):
        self._log, self._busy, self._unlisted, self._opening_s = log, busy, unlisted, opening_s
        self._taken: int | None = None

    def list(self) -> None:
        """The library asks what is plugged in."""
        self._unlisted -= 1
        if self._unlisted >= 0 or not self._take():
            self._refuse(POWER)
        self._leave()

    def open(self) -> None:
        """A sensor is opened; until `started` or `closed` no other device can be."""
        if self._taken is not None:
            return
        self._busy -= 1
        if self._busy >= 0:
            self._refuse((BUSY, POWER)[self._busy % 2])
        if not self._take():
            self._refuse(BUSY)
        time.sleep(self._opening_s)

    def started(self) -> None:
        """It delivers."""
        self._note("started")
        self._leave()

    def closed(self) -> None:
        """It does not any more, or never did."""
        self._leave()

    def _take(self) -> bool:
        self._taken = os.open(self._log.with_suffix(".bus"), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(self._taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._leave()
        return self._taken is not None

    def _leave(self) -> None:
        if self._taken is not None:
            os.close(self._taken)
        self._taken = None

    def _refuse(self, text: str) -> None:
        self._note(text)
        raise RuntimeError(text)

    def _note(self, line: str) -> None:
        with open(self._log, "a") as log:
            log.write(line + "\n")


class _Over:
    """One of the vendor's objects, with something of our own before it."""

    def __init__(self, vendors: Any, bus: Bus):
        self._vendors, self._bus = vendors, bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vendors, name)


class _Sensor(_Over):
    def open(self, profiles: Any) -> None:
        self._bus.open()
        self._vendors.open(profiles)

    def start(self, syncer: Any) -> None:
        self._vendors.start(syncer)
        self._bus.started()

    def close(self) -> None:
        self._bus.closed()
        self._vendors.close()


class _Device(_Over):
    def query_sensors(self) -> list[Any]:
        return [_Sensor(sensor, self._bus) for sensor in self._vendors.query_sensors()]


class SoftD435:
    """Delivers pictures whose first pixel tells their number, until it is told otherwise."""

    def __init__(self, serial: str = SERIAL, bus: Bus | None = None):
        self.bus = bus
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
        self.mute = False  # it is started, and sends nothing
        threading.Thread(target=self._feed, daemon=True).start()

    def devices(self) -> list[Any]:
        """What is plugged in."""
        if self.bus is None:
            return [self.device] if self.plugged else []
        self.bus.list()
        return [_Device(self.device, self.bus)] if self.plugged else []

    def _feed(self) -> None:
        while self.plugged:
            time.sleep(0.004)
            if self.mute:
                continue
            self.number += not self.repeats
            if self.drops and not self.repeats:
                self.number, self.drops = self.number + self.drops, 0
            self._send(self.colour, "color", self._picture())
            depth = np.full(SIZE[::-1], FAR_MM, np.uint16)
            depth[:, BOX] = NEAR_MM
            self._send(self.depth, "depth", depth)

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
    """A driver for a rig file: unplugged when the file `unplug` appears; on the `bus` of other cameras with that log."""
    own = dict(options)
    flag, bus = own.pop("unplug", None), own.pop("bus", None)
    soft = SoftD435(bus=Bus(Path(bus)) if bus else None)

    def watch() -> None:
        while not Path(flag).exists():
            time.sleep(0.01)
        soft.plugged = False

    if flag:
        threading.Thread(target=watch, daemon=True).start()
    return RealSenseCamera(own, name, size, soft.devices)
