"""Cameras of a rig: real processes that drain, notice and record; pictures come back state by state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from capex.errors import CapexError, DamagedFile, RigFault, UnknownName
from capex.pose import Pose
from capex.run.frames import RecordedFrames
from capex.worlds.rigs import camera_process
from capex.worlds.rigs.cameras import open_cameras
from capex.worlds.rigs.drivers import Frame, RealClock
from capex.worlds.rigs.frames import record
from capex.worlds.rigs.rigfile import Box, CameraEntry, GuardPolicy, RigFile

SIZE = (64, 36)
HERE = "test_rig_cameras"


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


def entry(name: str, driver: str = f"{HERE}:Counting", **options: Any) -> CameraEntry:
    pose = Pose(np.array([1.0, 0.0, 0.5]), np.eye(3))
    return CameraEntry(name, driver, options, "exterior", SIZE, extrinsics=pose)


@pytest.mark.parametrize("form", ["video", "images"])
def test_lock_step_records_every_state_the_same_to_the_byte(tmp_path, form):
    contents = []
    for attempt in ("a", "b"):
        description = rig(entry("front"), entry("side"), frames=form)
        cameras = open_cameras(description, LockStep())
        recording = record(description, cameras, tmp_path / attempt / "frames")
        for _ in range(30):
            recording.mark()
        recording.close()
        folder = tmp_path / attempt / "frames"
        contents.append({p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.*")})
    assert contents[0] == contents[1]
    frames = RecordedFrames(tmp_path / "a")
    frames.check(30)
    assert (frames.cameras, frames.states) == (("front", "side"), 30)
    shown = [(number_of(p["front"]), number_of(p["side"])) for p in frames.pictures()]
    assert shown == [(k, k) for k in range(1, 31)]
    assert number_of(frames.picture("side", 17)) == 18
    assert next(frames.pictures({"side": (32, 18)}))["side"].shape == (18, 32, 3)
    assert frames.device_s("front")[4] == pytest.approx(5 / 30)
    known = frames.camera("front")
    assert known.intrinsics is not None and known.intrinsics[0, 0] == 50.0
    assert known.extrinsics is not None and known.extrinsics.position_m[0] == 1.0
    with pytest.raises(DamagedFile, match="it has 30 states, and the episode 31"):
        frames.check(31)
    with pytest.raises(UnknownName, match="there is no camera 'rear'"):
        frames.camera("rear")
    stored = tmp_path / "a" / "frames" / ("front.mp4" if form == "video" else "front/000029.jpg")
    stored.unlink()
    with pytest.raises(DamagedFile, match="is missing"):
        frames.check(30)


def test_the_same_number_is_stored_once(tmp_path):
    description = rig(entry("front", freezes_at=3))
    recording = record(description, open_cameras(description, LockStep()), tmp_path / "frames")
    for _ in range(5):
        recording.mark()
    recording.close()
    frames = RecordedFrames(tmp_path)
    assert (frames.camera("front").count, frames.camera("front").repeated) == (3, 2)
    assert [number_of(p["front"]) for p in frames.pictures()] == [1, 2, 3, 3, 3]


def test_processes_drain_and_record_what_is_marked(tmp_path):
    description = rig(entry("front", pause_s=0.01), entry("side", pause_s=0.03))
    cameras = open_cameras(description, RealClock())
    try:
        first = cameras["front"].latest()
        assert first.number > camera_process.WARM_UP
        assert number_of(first.image) == first.number % 256
        assert cameras["front"].intrinsics is not None
        for attempt in range(2):  # one recording after another, by the same processes
            recording = record(description, cameras, tmp_path / str(attempt) / "frames")
            seen = []
            for _ in range(12):
                time.sleep(0.02)
                recording.mark()
                seen.append(cameras["front"].latest().number)
            recording.close()
            frames = RecordedFrames(tmp_path / str(attempt))
            frames.check(12)
            shown = np.array([number_of(p["front"]) for p in frames.pictures({"front": SIZE})])
            # What was marked is what was newest then, or came while it was asked for.
            late = (np.array(seen) - shown) % 256
            assert late.max() < 20 and (np.diff(frames.arrived_s("front")) >= 0).all()
            assert frames.camera("side").repeated + frames.camera("side").count == 12
    finally:
        for camera in cameras.values():
            camera.close()
    with pytest.raises(RigFault, match="camera front is closed"):
        cameras["front"].latest()


def test_a_frozen_device_is_a_fault(monkeypatch):
    monkeypatch.setattr(camera_process, "FROZEN_S", 0.3)
    camera = open_cameras(rig(entry("front", freezes_at=8)), RealClock())["front"]
    time.sleep(0.5)
    with pytest.raises(RigFault, match=r"camera front has shown the same picture for 0\.\d s"):
        camera.latest()
    camera.close()


def test_a_lost_camera_keeps_its_recording_and_begins_anew(tmp_path):
    description = rig(entry("front", pause_s=0.01, lost_at=60))
    cameras = open_cameras(description, RealClock())
    recording = record(description, cameras, tmp_path / "frames")
    marked = 0
    with pytest.raises(RigFault, match="camera front was unplugged"):
        while True:
            recording.mark()
            marked += 1
            time.sleep(0.02)
    with pytest.raises(RigFault, match="were recorded .camera front was unplugged"):
        recording.close()
    frames = RecordedFrames(tmp_path)
    frames.check(marked)
    assert len(list(frames.pictures())) == marked
    cameras["front"].start()
    assert cameras["front"].latest().number > camera_process.WARM_UP
    cameras["front"].close()


def test_a_killed_process_is_named(tmp_path):
    description = rig(entry("front", pause_s=0.01), frames="images")
    cameras = open_cameras(description, RealClock())
    recording = record(description, cameras, tmp_path / "frames")
    recording.mark()
    worker = cameras["front"]._worker  # type: ignore[attr-defined]
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.join()
    for ask in (recording.mark, cameras["front"].latest, recording.close):
        with pytest.raises(RigFault, match="the process of camera front ended .SIGKILL"):
            ask()
    cameras["front"].close()


@pytest.mark.parametrize(
    ("camera", "sentence"),
    [
        (entry("front", no="camera front is used by another program"), "is used by another"),
        (entry("front", "no_such_module:Camera"), "the driver 'no_such_module:Camera' cannot be"),
        (entry("front", "replay", folder="/nowhere"), "camera front has nothing to replay"),
    ],
)
def test_a_camera_that_cannot_start_says_why(camera, sentence):
    for clock in (LockStep(), RealClock()):
        with pytest.raises(CapexError, match=sentence):
            open_cameras(rig(camera), clock)


def test_names_and_sizes_are_checked(tmp_path):
    with pytest.raises(UnknownName, match="there is no driver 'rom'; valid: room, replay"):
        open_cameras(rig(entry("front", "rom")), RealClock())
    Picture.fromarray(picture(3, (48, 32))).save(tmp_path / "0.png")
    with pytest.raises(RigFault, match="gives pictures of 48x32; the rig file says 64x36"):
        open_cameras(rig(entry("front", "replay", folder=str(tmp_path))), RealClock())


def test_replay_plays_a_folder_or_an_archive(tmp_path):
    images = np.stack([picture(k) for k in range(4)])
    np.savez(tmp_path / "some.npz", images=images)
    camera = open_cameras(
        rig(entry("front", "replay", npz=str(tmp_path / "some.npz"), fps=200)), LockStep()
    )["front"]
    frame = camera.latest()
    assert number_of(frame.image) == frame.number % 4
    camera.close()


ORPHAN = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import test_rig_cameras as t
if __name__ == "__main__":
    cameras = t.open_cameras(t.rig(t.entry("front", pause_s=0.01)), t.RealClock())
    print(cameras["front"]._worker.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_outlives_a_killed_collector(tmp_path):
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN.format(tests=str(Path(__file__).parent)))
    before = set(Path("/dev/shm").glob("*")) if Path("/dev/shm").is_dir() else set()
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert out.returncode == -signal.SIGKILL, out.stderr
    assert out.stderr == ""
    process = int(out.stdout)
    while Path(f"/proc/{process}").exists() and "zombie" not in _state(process):
        time.sleep(0.01)
    after = set(Path("/dev/shm").glob("*")) if Path("/dev/shm").is_dir() else set()
    assert not {p for p in after - before if p.name.startswith("pym-")}


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/status").read_text()
    except OSError:
        return "zombie"
