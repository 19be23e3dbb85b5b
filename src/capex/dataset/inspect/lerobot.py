"""What LeRobot datasets of every version share: info.json, and tables of frames as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capex.dataset.inspect.lerobot_tables import ROWS_MOST, open_table, read_groups, reading
from capex.dataset.inspect.model import (
    Claims,
    DatasetFeature,
    Findings,
    Frames,
    FrameShot,
    Kind,
    Numbers,
)
from capex.dataset.inspect.pictures import decode_cells
from capex.dataset.statistics import Stats
from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.run.files import read_json
from capex.untrusted import fill

INFO = "meta/info.json"
# Path templates may name these and nothing else; a template is foreign text.
PLACES = ("chunk_index", "file_index", "video_key", "episode_chunk", "episode_index")
ARROW = {"halffloat": "float16", "float": "float32", "double": "float64", "large_string": "string"}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a small Parquet file."""
    opened = open_table(path)
    groups = [opened.metadata.row_group(k) for k in range(opened.num_row_groups)]
    values = sum(g.column(k).num_values for g in groups for k in range(g.num_columns))
    if values > ROWS_MOST:
        raise DamagedFile(path, f"it has {values:,} values; at most {ROWS_MOST:,} are read")
    table = read_groups(opened, path)
    with reading(path):
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


def read_info(root: Path) -> dict[str, Any]:
    """meta/info.json, with what nothing can be said without."""
    info = read_json(root / INFO)
    fps = info.get("fps")
    if not isinstance(fps, int | float) or isinstance(fps, bool) or not 0 < fps < 1e6:
        raise CapexError(
            f"{root / INFO} has the fps {fps!r}; it must be a positive number",
            code=ErrorCode.CONTRACT_BROKEN,
        )
    if not isinstance(info.get("features"), dict) or not info["features"]:
        raise CapexError(
            f"{root / INFO} declares no features; it must name every column",
            code=ErrorCode.CONTRACT_BROKEN,
        )
    return info


def place(root: Path, info: Mapping[str, Any], template: str, **numbers: Any) -> Path:
    """A path of info.json's templates, which must stay within the dataset."""
    pattern = info.get(template)
    try:
        path = root / fill(str(pattern), dict.fromkeys(PLACES, 0) | numbers)
    except ValueError:
        raise CapexError(
            f"{root / INFO} has the {template} {pattern!r}; it may name {', '.join(PLACES)}",
            code=ErrorCode.CONTRACT_BROKEN,
        ) from None
    if not isinstance(pattern, str) or not path.resolve().is_relative_to(root.resolve()):
        raise CapexError(
            f"{root / INFO} has the {template} {pattern!r}, which leads outside",
            code=ErrorCode.NOT_PERMITTED,
        )
    return path


def integer(value: Any) -> int | None:
    """A count of the metadata, or None."""
    return (
        int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else None
    )


def read_features(info: Mapping[str, Any], findings: Findings) -> dict[str, DatasetFeature]:
    """The features of info.json."""
    features = {}
    for name, block in info["features"].items():
        block = block if isinstance(block, dict) else {}
        dtype, shape = str(block.get("dtype")), block.get("shape")
        if not isinstance(shape, list | tuple) or not all(integer(n) is not None for n in shape):
            findings.add("features", f"{INFO}: {name} has the shape {shape!r}; it must be integers")
            continue
        names = block.get("names")
        names = tuple(names) if isinstance(names, list) else ()
        feature = DatasetFeature(
            _kind(dtype, tuple(shape), block),
            dtype,
            tuple(int(n) for n in shape),
            tuple(map(str, names)),
            "video" if dtype == "video" else "cells",
        )
        features[name] = feature
        if feature.kind == "number" and len(shape) == 1 and names and len(names) != shape[0]:
            findings.add(
                "features", f"{INFO}: {name} has {shape[0]} numbers and {len(names)} names"
            )
    return features


def _kind(dtype: str, shape: tuple[int, ...], block: Mapping[str, Any]) -> Kind:
    if dtype in ("image", "video"):
        more = block.get("info") if isinstance(block.get("info"), dict) else block.get("video_info")
        more = more if isinstance(more, dict) else {}
        deep = any(v is True for k, v in more.items() if k.endswith("is_depth_map"))
        return "depth" if deep or 1 in shape[:1] + shape[-1:] else "picture"
    try:
        return "number" if np.dtype(dtype).kind in "biuf" else "other"
    except TypeError:
        return "other"


def read_stats(path: Path, findings: Findings) -> dict[str, Stats]:
    """meta/stats.json."""
    try:
        stats = read_json(path)
    except DamagedFile as damage:
        findings.add("files", f"meta/stats.json cannot be read: {damage.reason}")
        return {}
    for name in (n for n, block in stats.items() if not isinstance(block, dict)):
        findings.add("statistics", f"meta/stats.json: {name} is {stats[name]!r}, not statistics")
    return {n: block for n, block in stats.items() if isinstance(block, dict)}


def make_claims(
    info: Mapping[str, Any],
    stats: Mapping[str, Stats],
    texts: tuple[str, ...],
    ours: bool,
    findings: Findings,
) -> Claims:
    """What info.json and the files beside it state."""
    stated = {name: integer(info.get(f"total_{name}")) for name in ("episodes", "frames", "tasks")}
    for name in (n for n, number in stated.items() if number is None):
        said = f"{INFO} has the total_{name} {info.get(f'total_{name}')!r}; it must be a number"
        findings.add("counts", said)
    return Claims(
        f"LeRobot {info.get('codebase_version')}",
        float(info["fps"]),
        {name: number for name, number in stated.items() if number is not None},
        read_features(info, findings),
        stats,
        texts,
        ours,
    )


def check_columns(
    schema: pa.Schema, file: str, features: Mapping[str, DatasetFeature], findings: Findings
) -> None:
    """Whether a data file has the columns that info.json declares."""
    declared = {n for n, f in features.items() if f.stored_as == "cells"}
    for name in sorted(declared - set(schema.names)):
        findings.add("features", f"{file} has no column {name}, which {INFO} declares")
    for name in sorted(set(schema.names) - declared):
        findings.add("features", f"{file} has a column {name}, which {INFO} does not declare")
    for name in declared & set(schema.names):
        kind, feature = schema.field(name).type, features[name]
        while hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
            kind = kind.value_type
        stored = ARROW.get(str(kind), str(kind))
        if feature.kind == "number" and stored != feature.dtype:
            findings.add(
                "features", f"{file}: {name} is stored as {stored}; {INFO} says {feature.dtype}"
            )


def frames_of(
    table: pa.Table,
    features: Mapping[str, DatasetFeature],
    at: tuple[Path, str, int],
    videos: Mapping[str, Iterator[FrameShot]],
    findings: Findings,
) -> Frames:
    """One episode's rows; `at` is the dataset, the file and the episode's index."""
    root, file, index = at
    numbers: dict[str, Numbers] = {}
    pictures: dict[str, Iterator[FrameShot]] = dict(videos)
    for name, feature in features.items():
        if name not in table.column_names:
            continue
        if feature.kind == "number":
            try:
                values = _matrix(table[name])
            except (pa.ArrowException, ValueError, TypeError) as error:
                findings.add("features", f"{file}, episode {index}: {name}: {error}")
                continue
            if values.shape[1] != feature.width:
                findings.add(
                    "features",
                    f"{file}, episode {index}: {name} has {values.shape[1]} numbers in a frame;"
                    f" {INFO} says {feature.width}",
                )
                continue
            numbers[name] = values
        elif feature.stored_as == "cells" and feature.kind != "other":
            pictures[name] = decode_cells(_cells(table[name]), root)
    return Frames(index, file, table.num_rows, numbers, pictures)


def _cells(column: pa.ChunkedArray) -> Iterator[Any]:
    for scalar in column:
        yield scalar.as_py()


def _matrix(column: pa.ChunkedArray) -> Numbers:
    """A column of numbers, of lists or of lists of lists as (rows, width)."""
    rows, values = len(column), column.combine_chunks()
    while pa.types.is_nested(values.type):
        lengths = pc.unique(pc.list_value_length(values)).to_pylist()
        if len(lengths) > 1 or None in lengths:
            raise ValueError(f"its frames differ in length: {sorted(map(str, lengths))}")
        values = values.flatten()
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype == object:  # bool with gaps
        numbers = np.array([np.nan if v is None else float(v) for v in numbers])
    return np.asarray(numbers).reshape(rows, -1)
