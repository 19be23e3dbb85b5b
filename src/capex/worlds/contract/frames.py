"""The rule about recorded frames: a picture of every camera for every state."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from capex.errors import Unsupported
from capex.pose import Array
from capex.worlds.contract.trial import NotClaimedError, WorldTrial, refuses, require

TICKS = 10


def frames_are_recorded(t: WorldTrial) -> str:
    """`mark` before the first tick and after each gives every camera a picture per state; `close`
    leaves nothing unwritten.
    """
    if not t.spec.records_frames:
        _require_refusal(t)
        raise NotClaimedError("states can be drawn again, so no pictures are recorded")
    with tempfile.TemporaryDirectory(prefix="capex-check-") as scratch:
        folder = Path(scratch) / "frames"
        t.begin()
        recording = t.env.record_frames(folder)
        try:
            recording.mark()
            for command in [t.command()] * TICKS:
                t.env.step(command)
                recording.mark()
        finally:
            recording.close()
        stored = json.loads((folder / "cameras.json").read_text(encoding="utf-8"))
        with np.load(folder / "index.npz") as index:
            for camera in t.spec.cameras:
                _require_pictures(camera.name, stored, {k: index[k] for k in index.files})
    names = ", ".join(camera.name for camera in t.spec.cameras)
    return f"{TICKS} ticks leave {TICKS + 1} pictures of each camera: {names}"


def _require_refusal(t: WorldTrial) -> None:
    record = getattr(t.env, "record_frames", None)
    with tempfile.TemporaryDirectory(prefix="capex-check-") as scratch:
        refused = record is None or refuses(Unsupported, record, Path(scratch) / "frames")
    require(refused, "record_frames() works but the spec says records_frames=False")


def _require_pictures(
    name: str, stored: dict[str, dict[str, object]], index: dict[str, Array]
) -> None:
    require(name in stored, f"cameras.json has {sorted(stored)}; it lacks {name}")
    for key in ("frame", "device_s", "arrived_s"):
        found = index.get(f"{name}.{key}")
        count = 0 if found is None else len(found)
        must = f"{TICKS} ticks must leave {TICKS + 1}"
        require(found is not None and count == TICKS + 1, f"{name}: {count} x {key}; {must}")
    numbers, count = index[f"{name}.frame"], int(str(stored[name].get("count", 0)))
    right = bool(np.all(np.diff(numbers) >= 0) and numbers[0] >= 0 and numbers[-1] < count)
    listed = f"{name}: the states' pictures are {numbers.tolist()} of {count} stored ones"
    require(right, f"{listed}; they must be there and never go back")
    arrived = index[f"{name}.arrived_s"]
    require(bool(np.all(np.diff(arrived) >= 0)), f"{name}: pictures arrived out of order")
