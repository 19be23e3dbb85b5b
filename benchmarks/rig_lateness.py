"""How late control ticks come at 20 Hz on the real clock while three camera processes replay stored
640x480 frames at 30 a second and every tick's frames are recorded.

    python benchmarks/rig_lateness.py MINUTES [--images] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from capex.run.frames import RecordedFrames
from capex.worlds.rigs.cameras import open_cameras
from capex.worlds.rigs.drivers import RealClock
from capex.worlds.rigs.frames import record
from capex.worlds.rigs.rigfile import Box, CameraEntry, GuardPolicy, RigFile

SIZE = (640, 480)
HZ, FPS, STORED = 20.0, 30.0, 60
CAMERAS = ("front", "left_wrist", "right_wrist")


def write_frames(path: Path, seed: int) -> None:
    """Two seconds of a textured scene that moves, with a sensor's noise."""
    rng = np.random.default_rng(seed)
    width, height = SIZE
    coarse = rng.integers(0, 256, (height // 20 + 8, width // 20 + 8, 3), dtype=np.uint8)
    scene = np.kron(coarse, np.ones((20, 20, 1), dtype=np.uint8))
    shifts = np.round(60 + 60 * np.sin(2 * np.pi * np.arange(STORED) / STORED)).astype(int)
    views = np.stack([scene[s : s + height, s : s + width] for s in shifts]).astype(np.int16)
    noise = rng.normal(0, 3, (8, height, width, 3)).astype(np.int16)
    images = np.clip(views + noise[np.arange(STORED) % len(noise)], 0, 255).astype(np.uint8)
    np.savez(path, images=images)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("minutes", type=float)
    parser.add_argument("--images", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        measure(options.minutes, options.images, options.out or Path(scratch), Path(scratch))


def measure(minutes: float, images: bool, out: Path, scratch: Path) -> None:
    """Run the ticks and count."""
    entries = []
    for seed, name in enumerate(CAMERAS):
        path = scratch / f"{name}.npz"
        write_frames(path, seed)
        options = {"npz": str(path), "fps": FPS}
        entries.append(CameraEntry(name, "replay", options, "exterior", SIZE))
    guard = GuardPolicy(Box("workspace", (0, 0, 0), (1, 1, 1)))
    form = "images" if images else "video"
    rig = RigFile(scratch, "lateness", (), tuple(entries), guard, {}, frames=form)
    clock, ticks = RealClock(), round(60 * minutes * HZ)
    cameras = open_cameras(rig, clock)
    folder = out / "frames"
    recording = record(rig, cameras, folder)
    recording.mark()
    late_s, dropped = [], 0
    began_s, own_s = time.monotonic(), time.process_time()
    deadline_s = clock.now_s()
    for _ in range(ticks):
        deadline_s += 1 / HZ
        clock.sleep_until(deadline_s)
        late_s.append(clock.now_s() - deadline_s)
        recording.mark()
        while clock.now_s() > deadline_s + 1 / HZ:  # the next tick's time has passed, too
            deadline_s += 1 / HZ
            dropped += 1
    wall_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
    recording.close()
    closing_s = time.monotonic() - began_s - wall_s
    for camera in cameras.values():
        camera.close()
    theirs = resource.getrusage(resource.RUSAGE_CHILDREN)
    frames = RecordedFrames(out)
    frames.check(ticks + 1)
    late_ms = 1000 * np.array(late_s)
    print(f"{ticks} ticks at {HZ:g} Hz in {wall_s:.1f} s, {form}, {len(CAMERAS)} cameras")
    print(
        f"lateness: median {np.median(late_ms):.2f} ms, 99th percentile"
        f" {np.percentile(late_ms, 99):.2f} ms, worst {late_ms.max():.2f} ms;"
        f" {dropped} ticks dropped"
    )
    for name in frames.cameras:
        c = frames.camera(name)
        age_ms = 1000 * np.diff(frames.arrived_s(name))
        print(
            f"{name}: {c.count} frames stored, {c.missed} skipped by the device's reader,"
            f" {c.repeated} ticks with the frame before, longest gap {age_ms.max():.0f} ms"
        )
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    print(
        f"{size / 1e6:.1f} MB; closing took {closing_s:.2f} s; CPU: control"
        f" {100 * own_s / wall_s:.1f} %, cameras"
        f" {100 * (theirs.ru_utime + theirs.ru_stime) / wall_s:.0f} % of a core together"
    )


if __name__ == "__main__":
    main()
