"""What a start is on a rig: a stored arrangement, to which a person matches the scene.

    runs/NAME/arrangements/WORLD--TASK/0007/front.png       the scene, by camera
    runs/NAME/arrangements/WORLD--TASK/0007/arrangement.json  notes, where it comes from, when
    .. chains/../episodes/0007/arrangement/front.png, match.json   how an attempt was arranged

The first attempt at a start makes its arrangement; later methods, and people, match it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from capex import codec
from capex.errors import DamagedFile
from capex.models.pictures import encode_png
from capex.run.files import now, read_json, whole_folder, write_bytes, write_json
from capex.run.store import Chain
from capex.untrusted import damage, picture, read_bytes, require_plain
from capex.worlds import Image

ARRANGEMENTS = "arrangements"  # the folder within a run
MATCH = "arrangement"  # the folder within an episode
_NOTE, _MATCH_NOTE = "arrangement.json", "match.json"


@dataclass(frozen=True)
class Arrangement:
    """A stored scene."""

    folder: Path
    images: Mapping[str, Path] = field(default_factory=dict)  # by camera
    notes: str = ""
    source: str = ""  # "first attempt of CHAIN", or the human episode it was taken from
    at: str = ""  # UTC, ISO 8601


@dataclass(frozen=True)
class Match:
    """How well a scene was arranged for an attempt. Without a stored arrangement to match, the
    attempt made it, and there are no differences.
    """

    by: str  # who arranged
    stand_in: bool
    score: float | None  # mean absolute difference of the images, 0 to 1; None: it made it
    arrangement: str = ""  # the folder's name
    changed: float | None = None  # share of the pixels that differ visibly
    notes: str = ""  # of whoever arranged


def made_by(chain: str) -> str:
    """The source of an arrangement that a chain's attempt made."""
    return f"first attempt of {chain}"


def arrangements_of(chain: Chain) -> Path:
    """The folder of a chain's arrangements, which the methods at one task share."""
    scene = chain.path.name.rpartition("--")[0]
    return chain.path.parent.parent / ARRANGEMENTS / scene


def find_arrangement(folder: Path, start: int) -> Arrangement | None:
    """The arrangement of a start; None before its first attempt."""
    place = folder / f"{start:04d}"
    return read_arrangement(place) if place.is_dir() else None


def read_arrangement(folder: Path) -> Arrangement:
    """A stored arrangement; DamagedFile where a part of it is missing."""
    note = folder / _NOTE
    require_plain(folder)
    if not note.is_file():
        raise DamagedFile(note, "it is missing")
    images = {p.stem: p for p in sorted(folder.glob("*.png"))}
    if not images:
        raise DamagedFile(folder, "it holds no picture of the scene")
    words = {name: str(read_json(note).get(name, "")) for name in ("notes", "source", "at")}
    return Arrangement(folder, images, **words)


def store_arrangement(
    folder: Path, start: int, images: Mapping[str, Image], source: str, notes: str = ""
) -> Arrangement:
    """Keep a scene as the arrangement of a start; it comes to exist whole."""
    place = folder / f"{start:04d}"
    with whole_folder(place) as scratch:
        for camera, image in images.items():
            write_bytes(scratch / f"{camera}.png", encode_png(image))
        write_json(scratch / _NOTE, {"notes": notes, "source": source, "at": now("seconds")})
    return read_arrangement(place)


def write_match(episode_dir: Path, match: Match, images: Mapping[str, Image]) -> None:
    """Keep beside an attempt how its scene was arranged."""
    folder = episode_dir / MATCH
    folder.mkdir(exist_ok=True)
    for camera, image in images.items():
        write_bytes(folder / f"{camera}.png", encode_png(image))
    write_json(folder / _MATCH_NOTE, vars(match))


def read_match(episode_dir: Path) -> Match | None:
    """How an attempt's scene was arranged; None where nobody arranged it."""
    path = episode_dir / MATCH / _MATCH_NOTE
    if not path.is_file():
        return None
    require_plain(path.parent)
    with damage(path):
        return codec.from_json(read_json(path), Match)


def read_image(path: Path) -> Image:
    """The pixels of a picture file (height, width, 3); DamagedFile where it is none."""
    try:
        return np.array(picture(read_bytes(path)).convert("RGB"))
    except (OSError, ValueError) as error:
        raise DamagedFile(path, f"it is no picture ({error})") from None
