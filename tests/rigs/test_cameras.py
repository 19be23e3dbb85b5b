"""Cameras of a rig: real processes that drain, notice and record; pictures come back state by state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from capex.errors import DamagedFile, ErrorCode, RigFault, UnknownName
from capex.rigs.cameras import open_cameras
from capex.rigs.cameras import process as camera_process
from capex.rigs.cameras.recording import record
from capex.rigs.drivers import RealClock
from capex.run.frames import RecordedFrames
from refusals import refuses
from rig_devices import SIZE, LockStep, entry, number_of, picture, rig


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
    assert known.intrinsics is not None
    assert known.extrinsics is not None
    assert (known.intrinsics[0, 0], known.extrinsics.position_m[0]) == (50.0, 1.0)
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
            for _ in range(12):
                time.sleep(0.02)
                recording.mark()
            recording.close()
            frames = RecordedFrames(tmp_path / str(attempt))
            frames.check(12)
            shown = [number_of(p["front"]) for p in frames.pictures({"front": SIZE})]
            assert shown == [round(30 * s) % 256 for s in frames.device_s("front")]
            assert (np.diff(frames.arrived_s("front")) >= 0).all()
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
    with pytest.raises(RigFault, match=r"camera front has shown the same picture for \d\.\d s"):
        camera.latest()
    camera.close()


def test_a_lost_camera_keeps_its_recording_and_begins_anew(tmp_path):
    description = rig(entry("front", pause_s=0.01, lost_at=200))
    cameras = open_cameras(description, RealClock())
    recording = record(description, cameras, tmp_path / "frames")
    marked, said = 0, ""
    while not said:
        try:
            recording.mark()
            marked += 1
        except RigFault as fault:
            said = str(fault)
        time.sleep(0.02)
    assert said == "camera front was unplugged"
    with pytest.raises(RigFault, match=r"were recorded .camera front was unplugged"):
        recording.close()
    frames = RecordedFrames(tmp_path)
    frames.check(marked)
    assert len(list(frames.pictures())) == marked
    cameras["front"].start()  # returns with its first picture there
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
        with pytest.raises(RigFault, match=r"the process of camera front ended .SIGKILL"):
            ask()
    cameras["front"].close()


@pytest.mark.parametrize(
    ("camera", "code", "sentence"),
    [
        (
            entry("front", no="camera front is used by another program"),
            ErrorCode.RIG_FAULT,
            "is used by another",
        ),
        (
            entry("front", "no_such_module:Camera"),
            ErrorCode.NOT_FOUND,
            "the driver 'no_such_module:Camera' cannot be",
        ),
        (
            entry("front", "replay", folder="/nowhere"),
            ErrorCode.RIG_FAULT,
            "camera front has nothing to replay",
        ),
    ],
)
def test_a_camera_that_cannot_start_says_why(camera, code, sentence):
    with refuses(code, sentence):
        open_cameras(rig(camera), LockStep())


def test_a_camera_that_cannot_start_in_its_process_says_why():
    with pytest.raises(RigFault, match="camera front is unplugged"):
        open_cameras(rig(entry("front", no="camera front is unplugged")), RealClock())


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
import rig_devices as t
from capex.rigs.cameras import open_cameras
if __name__ == "__main__":
    cameras = open_cameras(t.rig(t.entry("front", pause_s=0.01)), t.RealClock())
    print(cameras["front"]._worker.process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_outlives_a_killed_collector(tmp_path):
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN.format(tests=str(Path(__file__).parents[1])))
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
