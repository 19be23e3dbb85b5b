"""The eighth room: LeRobot v3 folders, ours or anyone's: episodes, pictures, states and actions,
what was meant by each frame, and what differs between two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from capex.dataset.inspect import diff_datasets
from capex.dataset.inspect.frames import POSITIONS
from capex.dataset.inspect.model import DatasetFeature, Numbers
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.run.files import read_json
from capex.studio.answers import Asked, get, number_of
from capex.studio.guard import Refused
from capex.studio.rooms.room import Room, Studio
from capex.studio.shelf import Shelf
from capex.untrusted import damage

EPISODES_MAX = 5000  # that are listed
POINTS_MAX = 2000  # frames of a plot; of more every n-th is shown
COMPARED_MAX = 20_000  # frames that are decoded for a comparison while somebody waits
BASIC = ("min", "max", "mean", "std")


def _routes(studio: Studio) -> Sequence[BaseRoute]:
    shelf = Shelf()

    def at(asked: Asked, name: str = "name") -> Path:
        return studio.library.dataset(asked.get(name, ""))

    def diff(path: Path, asked: Asked) -> dict[str, Any]:
        return _diff(shelf, path, at(asked, "other"))

    def look(work: Callable[[Path, Asked], Any]) -> Callable[[Request], Any]:
        """An endpoint over a dataset, whose values may have any type."""

        def looked(asked: Asked) -> Any:
            with damage(path := at(asked)):
                return work(path, asked)

        return get(looked)

    return [
        Route("/api/dataset", get(lambda _: {"datasets": _listed(studio)})),
        Route("/api/dataset/about", look(lambda path, _: _about(shelf, path))),
        Route("/api/dataset/episode", look(lambda path, asked: _episode(shelf, path, asked))),
        Route("/api/dataset/frame", look(lambda path, asked: _frame(shelf, path, asked))),
        Route("/api/dataset/diff", look(diff)),
    ]


ROOM = Room("dataset", "Dataset", _routes)


def _listed(studio: Studio) -> list[dict[str, Any]]:
    rows = []
    for name, path in sorted(studio.library.datasets().items()):
        row: dict[str, Any] = {"name": name}
        try:
            info = read_json(path / "meta" / "info.json")
            fields = ("codebase_version", "robot_type", "total_episodes", "total_frames", "fps")
            row |= {field: _scalar(info.get(field)) for field in fields}
        except (OSError, DamagedFile) as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def _scalar(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else None


def _about(shelf: Shelf, path: Path) -> dict[str, Any]:
    """What the metadata says of the whole."""
    dataset = shelf.open(path)
    claims = dataset.claims
    return {
        "format": claims.format,
        "fps": claims.fps,
        "totals": dict(claims.totals),
        "ours": claims.ours,
        "tasks": list(claims.task_texts),
        "features": {name: _feature(f) for name, f in claims.features.items()},
        "stats": {n: s for n in claims.stats if (s := _stats(claims.stats[n]))},
        "episodes": [
            {
                "index": entry.index,
                "length": entry.length,
                "tasks": list(entry.tasks),
                "from": {k: _scalar(v) for k, v in entry.provenance.items() if _scalar(v) != ""},
            }
            for entry in dataset.entries[:EPISODES_MAX]
        ],
    }


def _feature(feature: DatasetFeature) -> dict[str, Any]:
    names = ("kind", "dtype", "stored_as")
    shape = {"shape": list(feature.shape), "names": list(feature.names), "size": feature.size}
    return {name: getattr(feature, name) for name in names} | shape


def _stats(stats: Any) -> dict[str, list[float]]:
    """The four basic statistics as flat lists; nothing where they are no numbers."""
    found = {}
    for kind in BASIC:
        try:
            values = np.asarray(stats[kind], dtype=np.float64).ravel()
        except (KeyError, TypeError, ValueError):
            continue
        found[kind] = [float(v) for v in values[:64]]
    return found


def _episode(shelf: Shelf, path: Path, asked: Asked) -> dict[str, Any]:
    """The numbers of an episode by feature, and what was meant by its frames."""
    index, dataset = number_of(asked, "episode"), shelf.open(path)
    frames = dataset.episode(index)
    every = max(1, -(-frames.length // POINTS_MAX))
    features = dataset.claims.features
    cameras = {
        name: {"size": f.size or (4, 3), "kind": f.kind}
        for name, f in features.items()
        if f.kind in ("picture", "depth")
    }
    return {
        "episode": index,
        "tasks": list(dataset.entries[index].tasks),
        "stage": {"cameras": cameras, "hz": dataset.claims.fps, "ticks": max(1, frames.length)},
        "every": every,
        "numbers": {
            name: {"names": list(_names(features[name])), "values": _columns(values[::every])}
            for name, values in frames.numbers.items()
            if name not in POSITIONS
        },
        "words": _words(path, index),
    }


def _names(feature: DatasetFeature) -> Sequence[str]:
    fits = len(feature.names) == feature.width
    return feature.names if fits else [str(k) for k in range(feature.width)]


def _columns(values: Numbers) -> list[list[float | None]]:
    wide = values.astype(np.float64)
    return [[float(f"{v:.6g}") if np.isfinite(v) else None for v in column] for column in wide.T]


def _words(path: Path, index: int) -> list[dict[str, Any]]:
    """Of our datasets: plan, subtask and motion in words, with the frames that they hold for."""
    from capex.dataset.inspect.lerobot import read_rows

    if not (file := path / "meta" / "language.parquet").is_file():
        return []
    fields = ("style", "text", "from_frame", "to_frame")
    rows = [row for row in read_rows(file) if row.get("episode_index") == index]
    return [{field: row.get(field) for field in fields} for row in rows]


def _frame(shelf: Shelf, path: Path, asked: Asked) -> Response:
    width = number_of(asked, "width", 480)
    key = path, number_of(asked, "episode"), asked.get("camera", ""), width
    headers = {"X-Projection": "null", "X-Tips": "{}", "Cache-Control": "private, max-age=600"}
    picture = shelf.frame(key, number_of(asked, "tick"))
    return Response(picture, media_type="image/jpeg", headers=headers)


def _diff(shelf: Shelf, first: Path, second: Path) -> dict[str, Any]:
    """Where two datasets differ."""
    frames = sum(shelf.open(p).claims.totals.get("frames", 0) for p in (first, second))
    if frames > COMPARED_MAX:
        line = f"capex dataset diff {first} {second}"
        raise Refused(413, f"they have {frames:,} frames, too many to wait for here: {line}")
    try:
        found = diff_datasets(first, second)
    except ImportError as error:
        raise CapexError(
            f"the datasets cannot be compared here: {error}", code=ErrorCode.NOT_AVAILABLE
        ) from None
    return {"sentence": found.sentence, "differences": [vars(d) for d in found.differences[:500]]}
