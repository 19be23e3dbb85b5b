"""How late control ticks come at 20 Hz on the real clock while three camera processes replay stored
640x480 frames at 30 a second and every tick's frames are recorded.

The arm is one that follows its goals at once, behind the rig's own process: guard, servo and link
are those of a campaign. A tick is late by the time between the end of the one before and its
arrival there; more than a period late, it counts as dropped. A witness, a process that does nothing
but sleep for a hundredth of a second, tells when the machine itself stood still.

    python benchmarks/rig_lateness.py MINUTES [--images] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from capex.pose import DOWN, Pose
from capex.processes import spawn
from capex.rigs.cameras import open_cameras
from capex.rigs.cameras.recording import record
from capex.rigs.client import open_link
from capex.rigs.drivers import ArmFacts, ArmReading, RealClock
from capex.rigs.rigfile import ArmEntry, Box, CameraEntry, GuardPolicy, RigFile
from capex.rigs.timing import RigTally
from capex.run.frames import RecordedFrames
from capex.worlds import ArmCommand, Command

SIZE = (640, 480)
HZ, FPS, STORED = 20.0, 30.0, 60
SAME_S = 0.15
STILL_S = 0.03  # a sleep of 10 ms that takes longer: nothing ran, or others ran
CAMERAS = ("front", "left_wrist", "right_wrist")
HOME = Pose(np.array([0.5, 0.0, 0.3]), DOWN)


class FollowingArm:
    """An arm that is where it was told to be."""

    def __init__(self, options: Mapping[str, Any], name: str):
        self._tip, self._opening_m = HOME, 0.08

    def connect(self) -> ArmFacts:
        names = tuple(f"joint{k}" for k in range(6))
        return ArmFacts(names, ((-3.0, 3.0),) * 6, 0.08, False, "nothing: it is made up")

    def read(self) -> ArmReading:
        return ArmReading(self._tip, (0.0,) * 6, self._opening_m, time.monotonic())

    def command(self, T_mount_tip: Pose) -> None:
        self._tip = T_mount_tip

    def grip(self, opening_m: float) -> None:
        self._opening_m = opening_m

    def hold(self) -> None: ...

    def stop(self) -> None: ...

    def recover(self) -> None: ...

    def close(self) -> None: ...


class Witness:
    """A process that only sleeps, and notes when it woke late."""

    def __init__(self) -> None:
        self._worker = spawn(_sleep)

    def stood_still(self) -> list[tuple[float, float]]:
        """When and for how long it did not wake, by the machine's monotonic clock."""
        self._worker.pipe.send(None)
        gaps: list[tuple[float, float]] = self._worker.pipe.recv()
        self._worker.stop()
        return gaps


def _sleep(pipe: Connection) -> None:
    gaps, last = [], time.monotonic()
    while not pipe.poll():
        time.sleep(0.01)
        now = time.monotonic()
        if now - last > STILL_S:
            gaps.append((now, now - last))
        last = now
    pipe.send(gaps)


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


def describe(scratch: Path, form: str) -> RigFile:
    """A rig of the arm and three cameras; their frames are written here."""
    entries = []
    for seed, name in enumerate(CAMERAS):
        path = scratch / f"{name}.npz"
        write_frames(path, seed)
        options = {"npz": str(path), "fps": FPS}
        entries.append(CameraEntry(name, "replay", options, "exterior", SIZE))
    guard = GuardPolicy(Box("workspace", (0.2, -0.4, 0.1), (0.8, 0.4, 0.6)), force_latch_n=None)
    arm = ArmEntry(
        *("arm", "rig_lateness:FollowingArm", {}, Pose(np.zeros(3), np.eye(3)), HOME),
        senses_force=False,
        lock=str(scratch),
    )
    return RigFile(scratch, "lateness", (arm,), tuple(entries), guard, {}, frames=form)  # type: ignore[arg-type]


def measure(minutes: float, form: str, out: Path, scratch: Path) -> None:
    """Run the ticks and count."""
    rig, ticks = describe(scratch, form), round(60 * minutes * HZ)
    link = open_link(rig)
    cameras = open_cameras(rig, RealClock())
    link.settle()
    recording = record(rig, cameras, out / "frames")
    recording.mark()
    tally = RigTally()
    link.tick(Command({}))  # the first of a motion sets the beat
    recording.mark()
    witness, slips = Witness(), []
    began_s, own_s = time.monotonic(), time.process_time()
    for tick in range(ticks):
        step = 0.004 * math.cos(2 * math.pi * tick / 40)
        reading = link.tick(Command({"arm": ArmCommand((0.0, step, 0.0))}))
        recording.mark()
        tally.add(reading)
        if reading.late_s > 1.0 / HZ:
            slips.append(time.monotonic())
    wall_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
    still = witness.stood_still()
    recording.close()
    closing_s = time.monotonic() - began_s - wall_s
    for camera in cameras.values():
        camera.close()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    link.close()
    lateness = tally.lateness(HZ)
    print(f"{ticks} ticks at {HZ:g} Hz in {wall_s:.1f} s, {form}, {len(CAMERAS)} cameras")
    print(
        f"lateness: median {1000 * lateness.median_s:.2f} ms, 99th percentile"
        f" {1000 * lateness.p99_s:.2f} ms, worst {1000 * lateness.worst_s:.2f} ms;"
        f" {lateness.late} ticks dropped; guard: {dict(tally.guard) or 'nothing to do'}"
    )
    with_it = sum(any(abs(at - when) < SAME_S for when, _ in still) for at in slips)
    longest = max((gap for _, gap in still), default=0.0)
    print(
        f"witness: woke late {len(still)} times, {1000 * longest:.0f} ms at worst; {with_it} of"
        f" {len(slips)} dropped ticks fell into such a moment"
    )
    frames = RecordedFrames(out)
    frames.check(ticks + 2)
    for name in frames.cameras:
        camera, gap_ms = frames.camera(name), 1000 * np.diff(frames.arrived_s(name))
        print(
            f"{name}: {camera.count} frames stored, {camera.missed} of the device's missed,"
            f" {camera.repeated} ticks with the frame before, longest gap {gap_ms.max():.0f} ms"
        )
    size = sum(p.stat().st_size for p in (out / "frames").rglob("*") if p.is_file())
    theirs = (used.ru_utime + used.ru_stime) / wall_s
    print(
        f"{size / 1e6:.1f} MB; closing took {closing_s:.2f} s; CPU: collector"
        f" {100 * own_s / wall_s:.1f} %, cameras {100 * theirs:.0f} % of a core together"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("minutes", type=float)
    parser.add_argument("--images", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        form = "images" if options.images else "video"
        measure(options.minutes, form, options.out or Path(scratch), Path(scratch))


if __name__ == "__main__":
    main()
