"""Recording the pictures of an attempt; `capex.run.frames` reads them.

FOLDER/cameras.json     by camera: size, form, file, count, hz; kind, arm, intrinsics and pose
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

from capex.errors import RigFault
from capex.pose import rotation_vector
from capex.worlds import FrameRecording
from capex.worlds.rigs.camera_process import CameraProcess, RecordedCount
from capex.worlds.rigs.drivers import Camera
from capex.worlds.rigs.frame_files import Form, count_stored, file_name, flush, open_file
from capex.worlds.rigs.rigfile import CameraEntry, RigFile
from capex.worlds.rigs.ring import FrameStamp

CAMERAS_JSON, INDEX = "cameras.json", "index.npz"


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
    return Recording(folder, tracks, about)


class Recording:
    """What `Env.record_frames` gives."""

    def __init__(
        self, folder: Path, tracks: Mapping[str, _Track], about: Mapping[str, dict[str, Any]]
    ):
        self._folder, self._tracks, self._about = folder, tracks, about
        self._marked: dict[str, list[FrameStamp]] = {name: [] for name in tracks}
        self._closed = False

    def mark(self) -> None:
        """The newest picture of each camera belongs to the present state."""
        for name, track in self._tracks.items():
            marked = self._marked[name]
            marked.append(track.mark(marked[-1].number if marked else None))

    def close(self) -> None:
        """Everything marked is on disk; RigFault where a frame was lost."""
        if self._closed:
            return
        self._closed = True
        faults, index, about = [], {}, {}
        for name, track in self._tracks.items():
            marked = self._marked[name]
            numbers = np.array([stamp.number for stamp in marked], dtype=np.int64)
            fresh = np.diff(numbers, prepend=numbers[:1]) != 0
            index[f"{name}.frame"] = np.cumsum(fresh, dtype=np.int64)
            index[f"{name}.device_s"] = np.array([s.device_s for s in marked], dtype=np.float64)
            index[f"{name}.arrived_s"] = np.array([s.arrived_s for s in marked], dtype=np.float64)
            asked = int(fresh.sum()) + bool(len(marked))
            try:
                written = track.finish()
            except RigFault as fault:
                kept = count_stored(self._folder / self._about[name]["file"])
                written = RecordedCount(kept, fault=str(fault))
            if written.fault or written.lost or written.frames != asked:
                why = written.fault or "the machine cannot keep up"
                whole = max(0, written.frames - written.lost)
                faults.append(f"camera {name}: {whole} of {asked} frames were recorded ({why})")
            repeated = len(marked) - asked
            about[name] = self._about[name] | {
                "count": written.frames,
                "repeated": repeated,
                "missed": written.missed,
            }
        np.savez(self._folder / INDEX, **index)  # type: ignore[arg-type]
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        (self._folder / CAMERAS_JSON).write_text(text, encoding="utf-8")
        for path in (self._folder / INDEX, self._folder / CAMERAS_JSON, self._folder):
            flush(path)
        if faults:
            raise RigFault("; ".join(faults))


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
    if intrinsics is not None:
        about["intrinsics"] = np.asarray(intrinsics).tolist()
    if entry.extrinsics is not None:
        about["position_m"] = [float(v) for v in entry.extrinsics.position_m]
        about["rotation_rad"] = [float(v) for v in rotation_vector(entry.extrinsics.rotation)]
    return about
