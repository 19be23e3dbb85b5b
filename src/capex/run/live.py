"""What an attempt under way leaves for whoever watches: `live/` in its temporary folder.

    .writing-PID-0007/live/events.jsonl    what happens, a line each, not flushed to disk
    .writing-PID-0007/live/HASH.png        pictures, where the attempt itself keeps none
    .writing-PID-0007/live/front.jpg       of a robot: a camera's view now, while somebody watches

Nothing depends on it, and nothing of it stays: the folder is removed before the attempt comes to
exist.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from capex.errors import DamagedFile
from capex.models import pictures
from capex.untrusted import opened

if TYPE_CHECKING:
    from capex.run.store import Chain

LIVE_FOLDER, EVENTS, WATCHED = "live", "events.jsonl", "watched"
READ_MAX = 4 * 2**20  # bytes of events that are read at once


def under_way(chain: Chain, index: int) -> Path | None:
    """The temporary folder of the attempt at a start; the newest, where several lie there."""
    found = [p for p in chain.under_way() if p.name.endswith(f"-{index:04d}")]
    return max(found, key=began, default=None)


def began(folder: Path) -> float:
    """When an attempt's folder was made, unix time; 0 where it is gone."""
    try:
        return folder.stat().st_ctime
    except OSError:
        return 0.0


def read_events(attempt: Path, offset: int) -> tuple[list[bytes], int]:
    """The whole lines of an attempt's events from an offset on, and where they end."""
    try:
        with opened(attempt / LIVE_FOLDER / EVENTS) as file:
            file.seek(offset)
            content = file.read(READ_MAX)
    except (OSError, DamagedFile):
        return [], offset
    whole, _, _ = content.rpartition(b"\n")
    return (whole.split(b"\n"), offset + len(whole) + 1) if whole else ([], offset)


def find_picture(attempt: Path, sha256: str) -> Path | None:
    """A picture that the model was shown, by its hash; None where it was not kept, or not yet."""
    for folder in (attempt / pictures.IMAGES, attempt / LIVE_FOLDER):
        if (path := pictures.find(folder, sha256)).is_file():
            return path
    return None


def watch(attempt: Path) -> None:
    """Say that somebody watches an attempt's cameras."""
    with contextlib.suppress(OSError):
        place = attempt / LIVE_FOLDER / WATCHED
        place.touch(exist_ok=False) if not place.exists() else os.utime(place)


def watched_at(attempt: Path) -> float:
    """When somebody last watched, unix time; 0 where nobody ever did."""
    try:
        return (attempt / LIVE_FOLDER / WATCHED).stat().st_mtime
    except OSError:
        return 0.0


def camera_views(attempt: Path) -> dict[str, Path]:
    """By camera, what it sees now."""
    return {p.stem: p for p in (attempt / LIVE_FOLDER).glob("[!.]*.jpg")}


def forget(attempt: Path) -> None:
    """Remove what was left for watchers."""
    shutil.rmtree(attempt / LIVE_FOLDER, ignore_errors=True)
