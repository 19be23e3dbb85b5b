"""RealSense devices: which is plugged in, which modes it has, what it says of its lens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from capex.errors import CapexError, ErrorCode, RigFault
from capex.pose import Array


class NotThere(RigFault):
    """A device is missing, or gives nothing, now: one that was just plugged in or reset is listed
    anew after some seconds.
    """


Devices = Callable[[], Iterable[Any]]  # what is plugged in now, as the vendor's objects


def library() -> Any:
    """The vendor's package."""
    try:
        import pyrealsense2
    except ImportError as error:
        if "libusb" in str(error):
            raise CapexError(
                "pyrealsense2 needs the system's libusb; install it, for example: sudo apt-get"
                " install libusb-1.0-0",
                code=ErrorCode.MISSING_PACKAGE,
            ) from None
        raise CapexError(
            f'RealSense cameras need pyrealsense2 ({error}); pip install "capex[realsense]"',
            code=ErrorCode.MISSING_PACKAGE,
        ) from None
    return pyrealsense2


@dataclass(frozen=True)
class Stream:
    """A stream that is wanted, and the sensor's mode that gives it."""

    sensor: Any
    profile: Any


class RealSenseDevice:
    """One device that is plugged in. `camera` is the rig's name for it, for sentences."""

    def __init__(self, camera: str, rs: Any, device: Any):
        self._camera, self._rs, self._device = camera, rs, device
        self.serial = self._info(device, "serial_number")

    def __str__(self) -> str:
        words = [self._info(self._device, "name"), self.serial]
        more = {"firmware_version": "firmware", "usb_type_descriptor": "USB"}
        told = [f"{word} {self._info(self._device, key)}" for key, word in more.items()]
        known = [text for text in told if not text.endswith(" ")]
        return " ".join(filter(None, words)) + "".join(f", {text}" for text in known)

    def stream(self, kind: str, layout: str, size: tuple[int, int], fps: int) -> Stream:
        """The stream of a kind (color, depth) in a layout (rgb8, z16), a size and a rate."""
        rates = defaultdict(set)
        for sensor in self._device.query_sensors():
            for profile in sensor.get_stream_profiles():
                if (profile.stream_type(), profile.format()) != (
                    getattr(self._rs.stream, kind),
                    getattr(self._rs.format, layout),
                ):
                    continue
                video = profile.as_video_stream_profile()
                if ((video.width(), video.height()), profile.fps()) == (size, fps):
                    return Stream(sensor, profile)
                rates[video.width(), video.height()].add(profile.fps())
        has = "; ".join(
            f"{width}x{height} at {', '.join(map(str, sorted(at)))}"
            for (width, height), at in sorted(rates.items())
        )
        raise CapexError(
            f"camera {self._camera}: {self} gives no {kind} of {size[0]}x{size[1]} at {fps} Hz;"
            f" it has {has or 'none'}",
            code=ErrorCode.UNSUPPORTED,
        )

    def sensor_name(self, sensor: Any) -> str:
        """What the device calls one of its sensors."""
        return self._info(sensor, "name")

    def _info(self, of: Any, word: str) -> str:
        key = getattr(self._rs.camera_info, word)
        return str(of.get_info(key)) if of.supports(key) else ""


def find_device(camera: str, rs: Any, devices: Devices, serial: str) -> RealSenseDevice:
    """The device of a serial, or the only one; NotThere where it is missing."""
    plugged = {d.serial: d for d in (RealSenseDevice(camera, rs, given) for given in devices())}
    if serial in plugged:
        return plugged[serial]
    if not serial and len(plugged) == 1:
        return next(iter(plugged.values()))
    there = f"plugged in: {', '.join(sorted(plugged)) or 'none'}"
    if serial:
        raise NotThere(f"camera {camera}: there is no RealSense {serial}; {there}")
    if not plugged:
        raise NotThere(f"camera {camera} has no options.serial; {there}; look at its cable")
    advice = "give one of them as options.serial"
    raise RigFault(f"camera {camera} has no options.serial; {there}; {advice}")


def pinhole(intrinsics: Any) -> Array:
    """(3,3). The vendor counts from the first pixel's centre, we from its corner."""
    at = intrinsics.ppx + 0.5, intrinsics.ppy + 0.5
    return np.array([[intrinsics.fx, 0.0, at[0]], [0.0, intrinsics.fy, at[1]], [0.0, 0.0, 1.0]])


def distortion(rs: Any, intrinsics: Any) -> str:
    """The model of the lens and how far it moves a corner from where a pinhole would have it."""
    most = 0.0
    for u in (0.0, intrinsics.width - 1.0):
        for v in (0.0, intrinsics.height - 1.0):
            ray = [(u - intrinsics.ppx) / intrinsics.fx, (v - intrinsics.ppy) / intrinsics.fy, 1.0]
            seen = rs.rs2_project_point_to_pixel(intrinsics, ray)
            most = max(most, float(np.hypot(seen[0] - u, seen[1] - v)))
    return f"distortion {intrinsics.model.name}, {most:.1f} pixels in the corners"
