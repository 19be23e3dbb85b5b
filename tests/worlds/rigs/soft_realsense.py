"""The vendor's `software_device` as a D435 on a desk: two sensors side by side, a lens, controls that change its pictures."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyrealsense2 as rs

from capex.worlds.rigs.realsense import RealSenseCamera

SIZE = (64, 36)
SERIAL = "123456789012"
BASELINE_M = 0.015  # colour sees from so far to the right of depth
FOCAL = 50.0
TOP = 8  # rows of a near box; the rest is a wall
NEAR_MM, FAR_MM = 500, 1000


class SoftD435:
    """Delivers pictures whose red tells their number, until it is told otherwise."""

    def __init__(self, serial: str = SERIAL, *, light: float = 1.0):
        self.device = rs.software_device()
        for key, text in {"serial_number": serial, "name": "Software D435", "firmware_version": "5.16.0.1", "usb_type_descriptor": "3.2"}.items():
            self.device.register_info(getattr(rs.camera_info, key), text)
        self.colour, self.depth = (self.device.add_sensor(name) for name in ("RGB Camera", "Stereo Module"))
        self.modes = [self.colour.add_video_stream(_stream(rs.stream.color, uid, size, fps)) for uid, (size, fps) in enumerate([(SIZE, 30), (SIZE, 15), ((128, 72), 30)], 10)]
        self.depth_mode = self.depth.add_video_stream(_stream(rs.stream.depth, 20, SIZE, 30))
        offset = rs.extrinsics()
        offset.rotation, offset.translation = [1, 0, 0, 0, 1, 0, 0, 0, 1], [-BASELINE_M, 0, 0]
        self.depth_mode.register_extrinsics_to(self.modes[0], offset)
        self.depth.add_read_only_option(rs.option.depth_units, 0.001)
        for key, low, high, default in (("exposure", 1, 10000, 166), ("white_balance", 2800, 6500, 4600), ("enable_auto_exposure", 0, 1, 1), ("enable_auto_white_balance", 0, 1, 1)):
            span = rs.option_range()
            span.min, span.max, span.step, span.default = low, high, 10 if low == 2800 else 1, default
            self.colour.add_option(getattr(rs.option, key), span, True)
        self.device.create_matcher(rs.matchers.default)
        self.light, self.number, self.repeat, self.only_colour, self.plugged = light, 0, False, False, True
        self._ended = threading.Event()
        self._feeding = threading.Thread(target=self._feed, daemon=True)
        self._feeding.start()
