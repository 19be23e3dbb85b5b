"""A run of a rig that is not there: records made up, frames really recorded, verdicts really given."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from capex.method.record import Turn
from capex.rigs.cameras import open_cameras
from capex.rigs.cameras.recording import record as record_frames
from capex.run.store import open_run
from capex.run.verdicts import Verdict, append_verdict
from rig_devices import LockStep, entry, rig
from runs import commit, record, waypoint

WORLD, TASK = "rig:gone.toml", "Lift"
SIZES = {"left": (64, 36), "wrist": (48, 32)}
TICKS = 8
STATE = ("x", "y", "z", "qx", "qy", "qz", "qw", "opening")
ACTION = ("dx", "dy", "dz", "rx", "ry", "rz", "gripper")
TIP_M = np.array([0.5, 0.1, 0.2])


def recorded_run(path: Path, verdicts: str = "11", frames: str = "video") -> Path:
    """An episode per letter: 1 judged a success, 0 a failure, ? not judged."""
    chain = open_run(path, {"tasks": [f"{WORLD}:{TASK}"]}).chain(WORLD, TASK, "capex")
    described = rig(
        *(
            entry(name, size=size, arm="arm" if name == "wrist" else "")
            for name, size in SIZES.items()
        ),
        frames=frames,
    )
    for start, letter in enumerate(verdicts):
        turn = Turn(1, 0, 1, (waypoint((0.5, 0.1, 0.3), 0.9, 0.8, 1),), 1, reasoning="up")
        made = record(
            TASK, "capex", start, success=None, turns=[turn], steps=TICKS, world=WORLD, end="done"
        )
        episode = commit(chain, made)
        np.savez(episode / "steps.npz", **_steps(start))
        recording = record_frames(
            described, open_cameras(described, LockStep()), episode / "frames"
        )
        for _ in range(TICKS + 1):
            recording.mark()
        recording.close()
        if letter != "?":
            word = "success" if letter == "1" else "failure"
            append_verdict(episode, Verdict(word, "Ada", "2026-11-16T05:00:00+00:00"))
    return path


def _steps(start: int) -> dict[str, np.ndarray]:
    rows = np.arange(TICKS + 1, dtype=np.float64)
    proprio = np.zeros((TICKS + 1, len(STATE)))
    proprio[:, :3], proprio[:, 3] = TIP_M, 1.0  # hand down
    proprio[:, 7] = 0.04 + 0.001 * rows + 0.0001 * start
    return {
        "actions": np.full((TICKS, len(ACTION)), 0.001 * (start + 1)),
        "states": np.zeros((TICKS + 1, 0)),
        "proprio": proprio,
        "decision": np.zeros(TICKS, dtype=np.int64),
        "waypoint": np.zeros(TICKS, dtype=np.int64),
        "plan_starts": np.zeros(1, dtype=np.int64),
        "header": np.array(""),
        "action_names": np.array(ACTION),
        "state_names": np.array(STATE),
    }
