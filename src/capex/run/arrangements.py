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

ARRANGEMENTS = "arrangements"
MATCH = "arrangement"  # the folder within an episode


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
    """How well a scene was arranged for an attempt."""

    by: str  # who arranged
    stand_in: bool
    score: float | None  # mean absolute difference of the images, 0 to 1; None: it made it
    arrangement: str = ""  # the folder's name
