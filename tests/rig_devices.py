"""A camera for tests whose pictures tell their number, and rigs that have nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import RigFault
from capex.pose import Pose
from capex.rigs.drivers import Frame, RealClock
from capex.rigs.rigfile import Box, CameraEntry, GuardPolicy, RigFile

SIZE = (64, 36)
HERE = "rig_devices"


def picture(number: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    """A picture that tells its number: 8 grey bars of its bits."""
    bits = [(number >> k & 1) * 200 + 20 for k in range(8)]
    row = np.repeat(np.array(bits, dtype=np.uint8), size[0] // 8)
    return np.ascontiguousarray(np.broadcast_to(row[None, :, None], (size[1], size[0], 3)))


def number_of(image: np.ndarray) -> int:
    """What `picture` wrote."""
    bars = image[image.shape[0] // 2].reshape(8, -1, 3).mean(axis=(1, 2))
    return sum((int(bar) > 120) << k for k, bar in enumerate(bars))


class Counting:
    """A camera whose picture changes each time that it is asked, as in lock-step; options say when
    it freezes or fails."""

    intrinsics = np.array([[50.0, 0, 32], [0, 50, 18], [0, 0, 1]])

    def __init__(self, options: Mapping[str, Any], name: str, size: tuple[int, int]):
        self._options, self.name, self.size = options, name, size
        self._asked = 0

    def start(self) -> None:
        if "no" in self._options:
            raise RigFault(self._options["no"])

    def latest(self) -> Frame:
        time.sleep(self._options.get("pause_s", 0.0))
        self._asked += 1
        number = min(self._asked, self._options.get("freezes_at", 10**9))
        if number == self._options.get("lost_at"):
            raise RigFault(f"camera {self.name} was unplugged")
        return Frame(picture(number % 256, self.size), number, number / 30, 0.05 * number)

    def close(self) -> None:
        pass


class LockStep(RealClock):
    lock_step = True


def rig(*cameras: CameraEntry, frames: str = "video") -> RigFile:
    guard = GuardPolicy(Box("workspace", (0, 0, 0), (1, 1, 1)))
    return RigFile(Path("rig.toml"), "test", (), cameras, guard, {}, frames=frames)  # type: ignore[arg-type]


def entry(
    name: str,
    driver: str = f"{HERE}:Counting",
    size: tuple[int, int] = SIZE,
    arm: str = "",
    **options: Any,
) -> CameraEntry:
    pose, kind = Pose(np.array([1.0, 0.0, 0.5]), np.eye(3)), "wrist" if arm else "exterior"
    return CameraEntry(name, driver, options, kind, size, arm, extrinsics=pose)  # type: ignore[arg-type]
