"""LeRobot v3.0 datasets with pictures as PNG cells, read with pyarrow alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capex.errors import CapexError, ErrorCode
from capex.run.files import read_json
from capex.students.data import Demonstration, decode_pngs

PICTURES = "observation.images."
STATE, ACTION = "observation.state", "action"
ALIKE = ("world", "task", "start", "seed", "stand_in", "certified", "judge")
PROVENANCE = {"source": "capex/arm"} | {name: f"capex/{name}" for name in ALIKE}  # field: column


def _tables() -> Any:
    # Here: a machine that trains on packs and evaluates has no pyarrow.
    from capex.dataset.inspect import lerobot_tables

    return lerobot_tables


@dataclass(frozen=True)
class LeRobotSource:
    """What a pack is made from."""

    head: dict[str, Any]
    files: tuple[Path, ...]
    keys: tuple[str, ...]
    states: npt.NDArray[np.float32]
    actions: npt.NDArray[np.float32]
    episodes: tuple[Demonstration, ...]

    def frames(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Every frame (cameras, H, W, 3) in order, one row group of one file at a time."""
        for path in self.files:
            file = _tables().open_table(path)
            for group in range(file.num_row_groups):
                table = _tables().read_groups(file, path, self.keys, [group])
                cells = [[cell["bytes"] for cell in table[k].to_pylist()] for k in self.keys]
                views = [decode_pngs(column) for column in cells]
                for images in zip(*views, strict=True):
                    sizes = {i.shape for i in images}
                    if len(sizes) > 1:
                        raise CapexError(
                            f"{path} has pictures of different sizes in one frame: {sorted(sizes)};"
                            " export them at one size",
                            code=ErrorCode.MISMATCH,
                        )
                    yield np.stack(images)


def open_dataset(path: Path) -> LeRobotSource:
    """Read everything but the pictures; a dataset that students cannot use is refused."""
    info = read_json(path / "meta" / "info.json")
    if info.get("codebase_version") == "v2.1":
        raise CapexError(
            f"{path} is LeRobot v2.1; export it again with --format lerobot",
            code=ErrorCode.WRONG_CONTENT,
        )
    features: dict[str, Any] = info.get("features", {})
    for name in (STATE, ACTION):
        if name not in features or not features[name].get("names"):
            raise CapexError(
                f"{path} has no '{name}' with names in meta/info.json; give a dataset that `capex"
                " export` wrote",
                code=ErrorCode.WRONG_CONTENT,
            )
    deep = {k for k, feature in features.items() if (feature.get("info") or {}).get("is_depth_map")}
    keys = tuple(k for k in features if k.startswith(PICTURES) and k not in deep)
    if not keys:
        raise CapexError(
            f"{path} has no pictures (observation.images.*); students look at cameras",
            code=ErrorCode.NO_DATA,
        )
    if any(features[k]["dtype"] == "video" for k in keys):
        raise CapexError(
            f"{path} holds videos; export it again without --video: training reads single pictures,"
            " without loss",
            code=ErrorCode.WRONG_CONTENT,
        )
    files = tuple(sorted((path / "data").rglob("*.parquet")))
    columns = [_tables().read_table(f, [STATE, ACTION]) for f in files]
    states, actions = (np.concatenate([_matrix(t[k]) for t in columns]) for k in (STATE, ACTION))
    head = {
        "cameras": [k.removeprefix(PICTURES) for k in keys],
        "state_names": list(features[STATE]["names"]),
        "action_names": list(features[ACTION]["names"]),
        "fps": info["fps"],
    }
    return LeRobotSource(head, files, keys, states, actions, read_episodes(path))


def read_episodes(path: Path) -> tuple[Demonstration, ...]:
    """Every demonstration of a dataset, from its meta/ folder alone."""
    unused = ("stats/", "capex/start_state")
    rows = []
    for file in sorted((path / "meta" / "episodes").rglob("*.parquet")):
        schema = _tables().open_table(file).schema_arrow
        names = [name for name in schema.names if not name.startswith(unused)]
        rows += _tables().read_table(file, names).to_pylist()
    return tuple(_demonstration(row) for row in rows)


def _demonstration(row: dict[str, Any]) -> Demonstration:
    """Of a row of meta/episodes; what the dataset does not say keeps its default."""
    begin, end = row["dataset_from_index"], row["dataset_to_index"]
    known = {name: row[key] for name, key in PROVENANCE.items() if row.get(key) is not None}
    return Demonstration(begin, end, row["tasks"][0] if row["tasks"] else "", **known)


def _matrix(column: Any) -> npt.NDArray[np.float32]:
    """A column of fixed-size lists as (rows, size)."""
    joined = column.combine_chunks()
    values = joined.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float32).reshape(len(joined), -1)
