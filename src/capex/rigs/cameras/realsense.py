"""A RealSense camera as a `Camera` (extra `realsense`).

It speaks to the device's sensors, not to the vendor's pipeline: a pipeline begins anew by itself
when a cable was out for a moment, with other settings, and nobody is told. What stands behind it
may be the vendor's `software_device` just as well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import RigFault
from capex.pose import Array
from capex.rigs.cameras.realsense_device import (
    Devices,
    NotThere,
    RealSenseDevice,
    Stream,
    distortion,
    find_device,
    library,
    pinhole,
)
from capex.rigs.cameras.realsense_light import EXPOSURE, LOCK, WHITE_BALANCE, Light, read_wish
from capex.rigs.drivers import Frame
from capex.rigs.locks import one_at_a_time
from capex.rigs.tables import TomlTable
from capex.worlds import Image

FIRST_S = 8.0  # a device on a busy bus takes some seconds to its first picture
LOST_S = 1.0  # thirty pictures that did not come
WAIT_MS = 100
TURN_S = 30.0  # how long the cameras that start before this one may take together
LOOK_S = 5.0  # and how long one that fell silent waits for them, to be looked for
PAUSES_S = (0.5, 1.0, 2.0)  # before the second, the third and the last try to start
SHOWN = 5  # pictures after which a change of the device's settings is seen


class RealSenseCamera:
    """One device. Options: `serial`; `fps`; `exposure` and `white_balance`, each a number, "auto",
    or "lock", which keeps the look that the automatic has found; `warm_up`, pictures thrown away;
    `depth_size` where it is not that of the colour. `devices` lists what is plugged in.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        name: str,
        size: tuple[int, int],
        devices: Devices | None = None,
    ):
        table = TomlTable(Path("rig file"), f"cameras '{name}'.options", options)
        self._name, self._size = name, size
        self._serial = table.text("serial", "")
        self._fps = table.whole("fps", 30)
        self._warm_up = table.whole("warm_up", 30)
        self._wishes = {c: read_wish(table, c) for c in (EXPOSURE, WHITE_BALANCE)}
        self._depth = table.flag("depth", False)
        self._depth_size = size
        if table.given("depth_size"):
            width, height = (int(v) for v in table.vector("depth_size", 2))
            self._depth_size = width, height
        table.end()
        self._rs = library()
        self._devices = devices or (lambda: self._rs.context().query_devices())
        self._device: str | None = None  # what the last try to start found, in words
        self._streams: list[Stream] = []
        self._drained: _Drained | None = None
        self._fault = f"camera {name} has not been started"
        self._intrinsics: Array | None = None
        self.about = ""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self._size

    @property
    def intrinsics(self) -> Array | None:
        """(3,3) of the colour, as the device says once it was started."""
        return self._intrinsics

    def start(self) -> None:
        """Find the device, set it and drain it. Returns when warm-up is over and what is to be
        locked is locked. What the vendor's library refuses is tried again, and a device that is
        missing or gives no picture: devices that start at the same moment keep each other busy, and
        one that was just stopped, plugged in or reset is not ready for a while.
        """
        for pause_s in (*PAUSES_S, None):
            self.close()
            self._device = None
            try:
                self._begin()
                return
            except RuntimeError as error:  # the vendor's
                self.close()
                if pause_s is None:
                    raise self._refused(error) from None
            except NotThere:
                self.close()
                if pause_s is None:
                    raise
            except BaseException:
                self.close()
                raise
            time.sleep(pause_s)

    def _refused(self, error: RuntimeError) -> RigFault:
        device = self._device or "no RealSense device"
        failed = "did not start" if self._device else "could be listed"
        return RigFault(
            f"camera {self._name}: {device} {failed} in {len(PAUSES_S) + 1} tries ({error}); close"
            " other programs that use it, give it a USB 3 port of its own or a powered USB 3 hub"
            " and a short cable; several cameras start more surely where librealsense was built"
            " with the V4L2 backend than with RSUSB"
        )

    def latest(self) -> Frame:
        """The newest picture."""
        if self._drained is None:
            raise RigFault(self._fault)
        return self._drained.latest()

    def close(self) -> None:
        """Stop the streams; the device keeps its settings."""
        if self._drained is not None:
            self._drained.end()
            self._fault = f"camera {self._name} is closed"
        self._drained = None
        for stream in self._streams:
            for leave in (stream.sensor.stop, stream.sensor.close):
                with contextlib.suppress(RuntimeError):  # not begun, or gone
                    leave()
        self._streams = []

    def _begin(self) -> None:
        """One try. Until a device delivers, no other one of this machine is searched or started."""
        with one_at_a_time(f"camera {self._name}", "realsense", TURN_S):
            device = find_device(self._name, self._rs, self._devices, self._serial)
            self._device = str(device)
            colour = device.stream("color", "rgb8", self._size, self._fps)
            light = Light(self._name, colour.sensor, lambda word: getattr(self._rs.option, word))
            lens = colour.profile.as_video_stream_profile().get_intrinsics()
            self._intrinsics = pinhole(lens)
            priority = self._rs.option.auto_exposure_priority
            if colour.sensor.supports(priority):
                colour.sensor.set_option(priority, 0.0)  # the rate is kept in the dark, too
            said = {control: light.set(control, wish) for control, wish in self._wishes.items()}
            drained = self._stream(device, colour)
            drained.picture(1, FIRST_S)
        drained.picture(self._warm_up, FIRST_S + 2 * self._warm_up / self._fps)
        for control, wish in self._wishes.items():
            if wish == LOCK:
                longest = self._longest(colour.sensor) if control is EXPOSURE else np.inf
                said[control] = light.lock(control, drained.shown, longest)
        self.about = "; ".join((self._device, *said.values(), distortion(self._rs, lens)))

    def _stream(self, device: RealSenseDevice, colour: Stream) -> _Drained:
        """Begin to deliver and to drain, with depth where it is asked for."""
        syncer = self._rs.syncer()
        wanted = [colour]
        if self._depth:
            wanted.append(device.stream("depth", "z16", self._depth_size, self._fps))
        together: dict[str, list[Stream]] = {}
        for stream in wanted:  # a D405 has both on one sensor
            together.setdefault(device.sensor_name(stream.sensor), []).append(stream)
        for streams in together.values():
            self._streams.append(streams[0])
            streams[0].sensor.open([stream.profile for stream in streams])
        for streams in together.values():
            streams[0].sensor.start(syncer)
        align = self._rs.align(self._rs.stream.color) if self._depth else None
        self._drained = _Drained(self._name, self._fps, syncer, align, self._why_silent)
        return self._drained

    def _longest(self, sensor: Any) -> float:
        """The exposure that fills a frame's period; colour counts 100 us, stereo sensors 1 us."""
        return (1e6 if sensor.is_depth_sensor() else 1e4) / self._fps

    def _why_silent(self) -> str:
        """What is wrong with a device that has stopped to deliver."""
        try:
            with one_at_a_time(f"camera {self._name}", "realsense", LOOK_S):
                device = find_device(self._name, self._rs, self._devices, self._serial)
        except (NotThere, RuntimeError) as gone:
            return f"it was unplugged ({gone})"
        except RigFault as busy:
            return f"it could not be looked for ({busy})"
        return f"{device} is plugged in but sends nothing new; plug it in anew"


class _Drained:
    """The thread that takes every picture from the device and keeps the newest."""

    def __init__(self, name: str, fps: int, syncer: Any, align: Any, why_silent: Any):
        self._name, self._syncer, self._align = name, syncer, align
        self._period_s, self._why_silent = 1.0 / fps, why_silent
        self._frame: Frame | None = None
        self._fault = ""
        self._count = 0  # new pictures so far
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def latest(self) -> Frame:
        """The newest picture."""
        if self._fault or self._frame is None:
            raise RigFault(self._fault or f"camera {self._name} has no picture yet")
        return self._frame

    def picture(self, later: int, patience_s: float) -> Image:
        """The picture that comes after so many others."""
        with self._changed:
            until = self._count + later
            self._changed.wait_for(lambda: self._count >= until or self._fault, patience_s)
            got = self._count - until + later
        if got < later and not self._fault:
            raise NotThere(
                f"camera {self._name} gave {got} pictures in {patience_s:.0f} s; {later} were"
                " waited for"
            )
        if self._fault:
            raise NotThere(self._fault)
        return self.latest().image

    def shown(self) -> Image:
        """A picture that shows the settings of now."""
        return self.picture(SHOWN, FIRST_S)

    def end(self) -> None:
        """Take no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        heard_s, patience_s = time.monotonic(), FIRST_S
        while not self._ended.is_set() and not self._fault:
            try:
                came, frames = self._syncer.try_wait_for_frames(WAIT_MS)
                frame = self._taken(frames) if came else None
            except RuntimeError as error:  # the vendor's
                self._tell(None, f"camera {self._name} failed: {error}")
                continue
            now_s = time.monotonic()
            if frame is not None:
                heard_s, patience_s = now_s, LOST_S
                self._tell(frame)
            elif now_s - heard_s > patience_s:
                silent = f"camera {self._name} has given no new picture for {patience_s:g} s"
                self._tell(None, f"{silent}: {self._why_silent()}")

    def _tell(self, frame: Frame | None, fault: str = "") -> None:
        with self._changed:
            self._frame, self._fault = frame or self._frame, fault
            self._count += frame is not None
            self._changed.notify_all()

    def _taken(self, frames: Any) -> Frame | None:
        """A picture, with its depth where it must have one; None where it is not a new one."""
        colour, depth = frames.get_color_frame(), frames.get_depth_frame()
        if not colour:
            return None
        number, device_s = int(colour.get_frame_number()), colour.get_timestamp() / 1000
        last = self._frame
        if last is not None and (number <= last.number or device_s == last.device_s):
            return None
        depth_m = None
        if self._align is not None:
            if not depth or abs(depth.get_timestamp() / 1000 - device_s) > self._period_s:
                return None
            depth = self._align.process(frames).get_depth_frame()
            units = np.float32(depth.get_units())
            depth_m = np.asanyarray(depth.get_data()).astype(np.float32) * units
        image = np.array(colour.get_data())
        return Frame(image, number, device_s, time.monotonic(), depth_m)
