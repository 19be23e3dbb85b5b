"""Recording the pictures of an attempt; `capex.run.frames` reads them.

FOLDER/cameras.json     by camera: size, form, file, count, hz; kind, arm, intrinsics and pose, and
                        what the device said of itself
FOLDER/front.mp4        a video, or a folder front/ with 000000.jpg and so on
FOLDER/index.npz        front.frame (T+1): which stored frame belongs to state t, and its times
                        front.device_s and front.arrived_s
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from capex.errors import RigFault
from capex.pose import rotation_vector
from capex.rigs.cameras.frame_buffer import FrameStamp
from capex.rigs.cameras.process import CameraProcess, RecordedCount
from capex.rigs.drivers import Camera
from capex.rigs.drivers import about as device_about
from capex.rigs.rigfile import CameraEntry, RigFile
from capex.worlds import FrameRecording
from capex.worlds.frame_files import (
    CAMERAS_JSON,
    INDEX,
    Form,
    count_stored,
    file_name,
    flush,
    open_file,
)


def record(rig: RigFile, cameras: Mapping[str, Camera], folder: Path) -> FrameRecording:
    """Begin to record every camera into a new folder, as the rig file says."""
    folder.mkdir(parents=True)
    entries = {entry.name: entry for entry in rig.cameras}
    tracks: dict[str, _Track] = {}
    for name, camera in cameras.items():
        path = folder / file_name(name, rig.frames)
        tracks[name] = (
            _ProcessTrack(camera, path, rig.frames, rig.control_hz)
            if isinstance(camera, CameraProcess)
            else _DirectTrack(camera, path, rig.frames, rig.control_hz)
        )
    about = {
        name: _about(entries[name], camera, rig.frames, rig.control_hz)
        for name, camera in cameras.items()
    }
    return CamerasRecording(folder, tracks, about)


class CamerasRecording:
    """What `Env.record_frames` gives."""

    def __init__(
        self, folder: Path, tracks: Mapping[str, _Track], about: Mapping[str, dict[str, Any]]
    ):
        self._folder, self._tracks, self._about = folder, tracks, about
        self._marked: dict[str, list[FrameStamp]] = {name: [] for name in tracks}
        self._closed = False

    def mark(self) -> None:
        """The newest picture of each camera belongs to the present state."""
        stamps = {
            name: track.mark(self._marked[name][-1].number if self._marked[name] else None)
            for name, track in self._tracks.items()
        }
        for name, stamp in stamps.items():  # all of them or, after a fault, none
            self._marked[name].append(stamp)

    def close(self) -> None:
        """Everything marked is on disk; RigFault where a frame was lost."""
        if self._closed:
            return
        self._closed = True
        index: dict[str, npt.NDArray[Any]] = {}
        about, faults = {}, []
        for name in self._tracks:
            columns, counts, fault = self._finish(name)
            index |= {f"{name}.{key}": values for key, values in columns.items()}
            about[name] = self._about[name] | counts
            if fault:
                faults.append(f"camera {name}: {fault}")
        np.savez(self._folder / INDEX, **index)  # type: ignore[arg-type]
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        (self._folder / CAMERAS_JSON).write_text(text, encoding="utf-8")
        for path in (self._folder / INDEX, self._folder / CAMERAS_JSON, self._folder):
            flush(path)
        if faults:
            raise RigFault("; ".join(faults))

    def _finish(self, name: str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int], str]:
        """Columns of the index, counts, and what went wrong with one camera."""
        try:
            written = self._tracks[name].finish()
        except RigFault as lost:
            kept = count_stored(self._folder / self._about[name]["file"])
            written = RecordedCount(kept, fault=str(lost))
        marked = self._marked[name]
        numbers = np.array([stamp.number for stamp in marked], dtype=np.int64)
        frame = np.cumsum(np.diff(numbers, prepend=numbers[:1]) != 0, dtype=np.int64)
        asked = int(frame[-1]) + 1 if len(frame) else 0
        fault = ""
        if written.fault or written.lost or written.frames < asked:
            whole = min(asked, written.frames - written.lost)
            why = written.fault or "the machine cannot keep up"
            fault = f"{whole} of {asked} frames were recorded ({why})"
        columns = {
            # Of a lost camera the last states keep the last frame that there is.
            "frame": np.minimum(frame, max(0, written.frames - 1)),
            "device_s": np.array([stamp.device_s for stamp in marked], dtype=np.float64),
            "arrived_s": np.array([stamp.arrived_s for stamp in marked], dtype=np.float64),
        }
        counts = {
            "count": written.frames,
            "repeated": len(marked) - asked,
            "missed": written.missed,
        }
        return columns, counts, fault


class _Track(Protocol):
    """The recording of one camera."""

    def mark(self, before: int | None) -> FrameStamp: ...

    def finish(self) -> RecordedCount: ...


class _ProcessTrack:
    """Written by the camera's own process, which is told numbers."""

    def __init__(self, camera: CameraProcess, path: Path, form: Form, hz: float):
        self._camera = camera
        camera.record(path, form, hz)

    def mark(self, before: int | None) -> FrameStamp:
        stamp = self._camera.stamp()
        if stamp.number != before:
            self._camera.mark(stamp.number)
        return stamp

    def finish(self) -> RecordedCount:
        return self._camera.finish()


class _DirectTrack:
    """Written here, picture by picture: in lock-step the room waits meanwhile."""

    def __init__(self, camera: Camera, path: Path, form: Form, hz: float):
        self._camera, self._frames = camera, 0
        self._file = open_file(path, form, camera.size, hz)

    def mark(self, before: int | None) -> FrameStamp:
        frame = self._camera.latest()
        if frame.number != before:
            self._file.add(frame.image)
            self._frames += 1
        return FrameStamp(frame.number, frame.device_s, frame.arrived_s)

    def finish(self) -> RecordedCount:
        self._file.close()
        return RecordedCount(self._frames)


def _about(entry: CameraEntry, camera: Camera, form: Form, hz: float) -> dict[str, Any]:
    """What a reader of the pictures needs, so that no rig has to be there."""
    about: dict[str, Any] = {"size": list(camera.size), "form": form}
    about |= {"file": file_name(entry.name, form), "count": 0, "hz": hz}
    about |= {"kind": entry.kind, "arm": entry.arm, "view": entry.view}
    intrinsics = camera.intrinsics if camera.intrinsics is not None else entry.intrinsics
    if device := device_about(camera):
        about["device"] = device
    if intrinsics is not None:
        about["intrinsics"] = np.asarray(intrinsics).tolist()
    if entry.extrinsics is not None:
        about["position_m"] = [float(v) for v in entry.extrinsics.position_m]
        about["rotation_rad"] = [float(v) for v in rotation_vector(entry.extrinsics.rotation)]
    return about
