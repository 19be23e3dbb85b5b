"""steps.npz: what an episode leaves at 20 Hz, read back and checked."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from capex.errors import DamagedFile
from capex.npz import NotReadable, read_npz
from capex.pose import Array
from capex.untrusted import opened

STEPS = "steps.npz"
# How the last record of a zip archive begins: its last 22 bytes, as numpy writes it without a
# comment.
ARCHIVE_END = b"PK\x05\x06"
ARCHIVE_END_BYTES = 22
ARRAYS_MOST = 256 * 2**20  # bytes of all arrays of a file; an hour at 20 Hz has 100 million


class StepArrays(dict[str, Any]):
    """The arrays of a steps.npz by name; one that it lacks is DamagedFile, not KeyError."""

    def __init__(self, path: Path, arrays: Mapping[str, Any]):
        super().__init__(arrays)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise DamagedFile(self.path, f"it has no '{name}'")


def archive(steps: Mapping[str, Array]) -> bytes:
    """The arrays as a steps.npz. Made in memory: numpy goes back and forth in what it writes, and
    in a file every turn is a call of the system.
    """
    out = io.BytesIO()
    np.savez_compressed(out, allow_pickle=False, **steps)
    return out.getvalue()


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file of an attempt; DamagedFile where they cannot be read."""
    try:
        with opened(path) as file:
            return read_npz(file, ARRAYS_MOST)
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror or error})") from None
    except NotReadable as error:
        raise DamagedFile(path, f"its arrays cannot be read ({error})") from None


def read_steps(episode: Path) -> StepArrays:
    """The arrays of an episode's steps.npz, each checked against its checksum; DamagedFile where
    they cannot be read or do not fit.
    """
    path = episode / STEPS
    steps = StepArrays(path, read_arrays(path))
    ticks = steps["actions"].shape[0] if "actions" in steps and steps["actions"].ndim else 0
    fitting = {
        "actions": (2, ticks),
        "states": (2, ticks + 1),
        "proprio": (2, ticks + 1),
        "decision": (1, ticks),
        "waypoint": (1, ticks),
    }
    for name, (dimensions, rows) in fitting.items():
        if name in steps and (steps[name].ndim != dimensions or len(steps[name]) != rows):
            raise DamagedFile(
                path,
                f"'{name}' has the shape {steps[name].shape}, which does not fit {ticks} actions",
            )
    return steps


def check_steps(episode: Path) -> None:
    """Refuse a steps.npz that is missing or was cut short: a look at its last bytes, cheap enough
    for every episode of a run.
    """
    path = episode / STEPS
    try:
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - ARCHIVE_END_BYTES))
            whole = file.read().startswith(ARCHIVE_END)
    except OSError as error:
        raise DamagedFile(path, f"it cannot be read ({error.strerror or error})") from None
    if not whole:
        raise DamagedFile(
            path, f"its {size} bytes are not a whole archive" if size else "it is empty"
        )
