"""The cameras of a rig as an observation needs them: fresh pictures only, in any size, with depth
and a camera model where the file or the device knows one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from capex.errors import RigFault, Unsupported
from capex.pose import Array
from capex.rigs.drivers import Frame, RigClock
from capex.rigs.link import RigReading
from capex.rigs.registry import OpenRig
from capex.rigs.rigfile import CameraEntry, RigFile
from capex.worlds import ArmState, CameraModel, Image
from capex.worlds.frame_files import scaled

FRAME_WAIT_S = 1.0  # a camera of 15 Hz has sent fifteen pictures by then
POLL_S = 0.005
SAME_TIME_S = 1e-6  # times that crossed a wire as seconds


class RigEyes:
    """Remembers which picture of each camera was used last and since when the arms keep still."""

    def __init__(self, rig: RigFile):
        self._entries = {camera.name: camera for camera in rig.cameras}
        self._used: dict[str, Frame] = {}
        self._still_s = -np.inf  # pictures from before show arms in motion
        self._moved = frozenset[str]()  # cameras whose last picture is from before

    def look_after(self, settled: RigReading) -> None:
        """The arms keep still since this reading: older pictures count no more."""
        self._still_s = settled.time_s
        self._moved = frozenset(self._entries)

    def image(self, rig: OpenRig, name: str, size: tuple[int, int] | None) -> Image:
        """A fresh picture, scaled to a size."""
        return scaled(self._fresh(rig, name).image, size)

    def newest(self, rig: OpenRig, name: str, size: tuple[int, int] | None) -> Image:
        """The newest picture, whether the arms move or not; a camera that has stopped sending is a
        fault.
        """
        frame, clock = rig.cameras[name].latest(), rig.clock
        age_s = clock.now_s() - frame.arrived_s
        if not clock.lock_step and age_s > FRAME_WAIT_S:
            raise RigFault(
                f"camera {name} gives no fresh picture: its newest one came {age_s:.2f} s ago; look"
                " at its cable and restart it"
            )
        return scaled(frame.image, size)

    def depth(
        self, rig: OpenRig, name: str, size: tuple[int, int] | None
    ) -> npt.NDArray[np.float32]:
        """The depth of the picture used last, so that it belongs to the pixels that were seen;
        infinite where the sensor saw nothing.
        """
        frame = self._fresh(rig, name) if name in self._moved else self._used[name]
        if not self._entries[name].depth or frame.depth_m is None:
            raise Unsupported(f"camera {name} of this rig has no depth")
        depth = np.where(frame.depth_m > 0, frame.depth_m, np.inf).astype(np.float32)
        if size is None or size == (depth.shape[1], depth.shape[0]):
            return depth
        rows, columns = (
            ((np.arange(new) + 0.5) * old / new).astype(int)
            for new, old in zip(size[::-1], depth.shape, strict=True)
        )
        return np.asarray(depth[rows][:, columns])

    def model(
        self, rig: OpenRig, name: str, arms: Mapping[str, ArmState], size: tuple[int, int] | None
    ) -> CameraModel:
        """Intrinsics at a size, and where the camera is while the arms stand so."""
        entry = self._entries[name]
        device = rig.cameras[name].intrinsics
        known = entry.intrinsics if device is None else device
        if known is None or entry.extrinsics is None:
            missing = "extrinsics" if entry.extrinsics is None else "intrinsics"
            raise Unsupported(f"camera {name} of this rig is not calibrated: it has no {missing}")
        if entry.kind == "exterior":
            return CameraModel(scaled_intrinsics(known, entry, size), entry.extrinsics)
        tip = arms[entry.arm].T_base_tip
        return CameraModel(scaled_intrinsics(known, entry, size), tip @ entry.extrinsics)

    def _fresh(self, rig: OpenRig, name: str) -> Frame:
        """A picture taken since the arms keep still that was not used before. On a real clock it is
        waited for; in lock-step the room draws the present.
        """
        camera, clock = rig.cameras[name], rig.clock
        deadline_s = clock.now_s() + FRAME_WAIT_S
        while True:
            frame = camera.latest()
            if self._is_fresh(name, frame, clock):
                self._used[name] = frame
                self._moved -= {name}
                return frame
            if clock.lock_step or clock.now_s() >= deadline_s:
                raise self._stale(name, frame, clock)
            clock.sleep_until(clock.now_s() + POLL_S)

    def _is_fresh(self, name: str, frame: Frame, clock: RigClock) -> bool:
        if frame.arrived_s < self._still_s - SAME_TIME_S:
            return False
        used = self._used.get(name)
        if used is None or frame.number != used.number:
            return True
        # In lock-step nothing changes between two looks at one moment.
        return clock.lock_step and clock.now_s() <= used.arrived_s + SAME_TIME_S

    def _stale(self, name: str, frame: Frame, clock: RigClock) -> RigFault:
        now_s = clock.now_s()
        age, still = now_s - frame.arrived_s, now_s - self._still_s
        used = self._used.get(name)
        again = used is not None and used.number == frame.number
        what = f"was used before (number {frame.number})" if again else "is older than that"
        return RigFault(
            f"camera {name} gives no fresh picture: the arms keep still since {still:.2f} s, its"
            f" newest picture came {age:.2f} s ago and {what}; look at its cable and restart it"
        )


def scaled_intrinsics(known: Array, entry: CameraEntry, size: tuple[int, int] | None) -> Array:
    """Intrinsics of a camera at another size; pixel edges, not centres, fall on each other."""
    width, height = size or entry.size
    scale = np.array([width / entry.size[0], height / entry.size[1], 1.0])
    return np.asarray(known * scale[:, None])
