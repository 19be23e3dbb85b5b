"""Paths, features, columns and types of our LeRobot datasets; in words: docs/dataset.md.

v3.0 is what LeRobot 0.4 and later read. v3.1 is LeRobot's own name for the same with language
columns (0.6 and later); depth maps are features there, too. LeRobot itself still writes "v3.0" as
the codebase_version of both. v2.1 has a file per episode: `lerobot21`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from capex.dataset import depth, video
from capex.dataset.frames import ANNOTATIONS, OUTCOMES, Pipeline, exported_state
from capex.dataset.language import STYLES
from capex.dataset.provenance import FIELDS
from capex.dataset.rolling import DATA_FILE_MB, FILES_PER_CHUNK, VIDEO_FILE_MB
from capex.dataset.statistics import STATISTICS
from capex.worlds import Spec

Version = Literal["v2.1", "v3.0", "v3.1"]
VERSIONS: dict[str, Version] = {"lerobot": "v3.0", "lerobot-v2.1": "v2.1", "lerobot-v3.1": "v3.1"}
CODEBASE_VERSION = {"v2.1": "v2.1", "v3.0": "v3.0", "v3.1": "v3.0"}
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DEPTH_PATH = "depth/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
NUMBERS = ("frame_index", "episode_index", "index", "task_index")
INDICES = {"timestamp": "float32"} | dict.fromkeys(NUMBERS, "int64")
PICTURE = pa.struct([("bytes", pa.binary()), ("path", TEXT)])
LIST = pa.list_(FLOAT)
TYPES = {"string": TEXT, "int64": INT, "bool": pa.bool_(), "float64": FLOAT, "list": LIST}
WAYPOINTS = pa.schema(
    [(name, INT) for name in ("episode_index", "decision", "waypoint", "phase")]
    + [("committed", pa.bool_()), ("stated", FLOAT), ("calibrated", FLOAT), ("label", INT)]
    + [("status", TEXT), ("report", TEXT), ("from_frame", INT), ("to_frame", INT)]
)
LANGUAGE = pa.schema(
    [
        ("episode_index", INT),
        ("style", TEXT),
        ("text", TEXT),
        ("from_frame", INT),
        ("to_frame", INT),
    ]
)
EVENT = {"role": TEXT, "content": TEXT, "style": TEXT, "camera": TEXT, "tool_calls": pa.list_(TEXT)}
LASTING = {
    **{name: EVENT[name] for name in ("role", "content", "style")},
    **{"timestamp": pa.float32(), "camera": TEXT, "tool_calls": EVENT["tool_calls"]},
}
LANGUAGE_COLUMNS = {
    "language_persistent": pa.list_(pa.struct(LASTING.items())),
    "language_events": pa.list_(pa.struct(EVENT.items())),
}
SUBTASK = "subtask_index"  # of meta/subtasks.parquet, what LeRobot 0.4 hands out as "subtask"
ANNOTATED = "annotation.capex.{style}"  # of meta/tasks.jsonl, as GR00T reads annotations


@dataclass(frozen=True)
class DatasetLayout:
    """What every episode of a dataset has in common."""

    spec: Spec
    pipeline: Pipeline
    version: Version = "v3.0"

    @property
    def cameras(self) -> tuple[str, ...]:
        return self.pipeline.cameras

    @property
    def fps(self) -> int:
        """Frames per second: the control rate."""
        return round(self.spec.control_hz)

    def key(self, camera: str) -> str:
        """The feature name of a camera."""
        return f"observation.images.{camera}"

    def depth_key(self, camera: str) -> str:
        """The feature name of a camera's depth, as LeRobot's own robots call it."""
        return f"{self.key(camera)}_depth"

    @property
    def deep(self) -> tuple[str, ...]:
        """Cameras whose depth is a feature; elsewhere depth lies in files of its own."""
        return self.cameras if self.pipeline.depth and self.version == "v3.1" else ()

    @property
    def streams(self) -> tuple[str, ...]:
        """The features that are kept as video."""
        if not self.pipeline.video:
            return ()
        return (*map(self.key, self.cameras), *map(self.depth_key, self.deep))

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height of each picture feature, depth included."""
        sizes = self.pipeline.sizes
        deep = {self.depth_key(camera): sizes[camera] for camera in self.deep}
        return {self.key(camera): size for camera, size in sizes.items()} | deep

    @property
    def words(self) -> dict[str, pa.DataType]:
        """The columns for what a frame meant in words, as far as the version has them."""
        if self.version == "v3.1":
            return LANGUAGE_COLUMNS
        if self.version == "v3.0":
            return {SUBTASK: INT}
        return {ANNOTATED.format(style=style): INT for style in STYLES}

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the state's numbers."""
        return tuple(self.spec.state_names[k] for k in exported_state(self.spec.state_names))

    @property
    def vectors(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Vector features: type and names of their numbers. Actions keep all bits, to replay."""
        return {
            "observation.state": ("float32", self.state_names),
            "action": ("float64", self.spec.action_names),
        }

    @property
    def features(self) -> dict[str, Any]:
        """The features block of info.json."""
        features: dict[str, Any] = {}
        for camera, (width, height) in self.pipeline.sizes.items():
            picture: dict[str, Any] = {"dtype": "image", "shape": [height, width, 3]}
            picture["names"] = ["height", "width", "channels"]
            if self.pipeline.video:
                picture |= {"dtype": "video", "info": video.feature_info((width, height), self.fps)}
            features[self.key(camera)] = picture
        for camera in self.deep:
            features[self.depth_key(camera)] = depth.feature(
                self.pipeline.sizes[camera], self.fps, as_video=self.pipeline.video
            )
        for name, (dtype, names) in self.vectors.items():
            features[name] = {"dtype": dtype, "shape": [len(names)], "names": list(names)}
        for name, kind in (OUTCOMES | ANNOTATIONS | INDICES).items():
            features[name] = {"dtype": np.dtype(kind).name, "shape": [1], "names": None}
        for name, column in self.words.items():
            dtype = "int64" if column == INT else "language"
            features[name] = {"dtype": dtype, "shape": [1], "names": None}
        return features

    @property
    def shard_rows(self) -> pa.Schema:
        """The columns of a worker's file: all but the words, which are numbered in the parent."""
        return _with_hints({f.name: f.type for f in self.rows if f.name not in self.words})

    @property
    def rows(self) -> pa.Schema:
        """The columns of the data files."""
        columns: dict[str, pa.DataType] = {}
        for name, feature in self.features.items():
            dtype = feature["dtype"]
            if name in self.words:
                columns[name] = self.words[name]
            elif dtype == "image":
                columns[name] = PICTURE
            elif name in self.vectors:
                columns[name] = pa.list_(getattr(pa, dtype)(), feature["shape"][0])
            elif dtype != "video":
                columns[name] = pa.bool_() if dtype == "bool" else getattr(pa, dtype)()
        return _with_hints(columns, "Sequence" if self.version == "v2.1" else "List")

    @property
    def depth_rows(self) -> pa.Schema:
        """The columns of the depth files."""
        indices = dict.fromkeys(("index", "episode_index", "frame_index"), INT)
        return _with_hints(indices | {f"depth.{camera}": PICTURE for camera in self.cameras})

    @property
    def measured(self) -> dict[str, int]:
        """Widths of the features with statistics, besides pictures; annotations are no input."""
        widths = {name: len(names) for name, (_, names) in self.vectors.items()}
        return widths | dict.fromkeys((*OUTCOMES, *INDICES), 1)

    @property
    def episodes(self) -> pa.Schema:
        """The columns of meta/episodes: where an episode lies, its statistics, its provenance."""
        columns = {"episode_index": INT, "tasks": pa.list_(TEXT), "length": INT}
        for part in ("data", "meta/episodes"):
            columns |= {f"{part}/chunk_index": INT, f"{part}/file_index": INT}
        columns |= {"dataset_from_index": INT, "dataset_to_index": INT}
        for name in self.streams:
            key = f"videos/{name}"
            columns |= {f"{key}/chunk_index": INT, f"{key}/file_index": INT}
            columns |= {f"{key}/from_timestamp": FLOAT, f"{key}/to_timestamp": FLOAT}
        pictures = [*map(self.key, self.cameras), *map(self.depth_key, self.deep)]
        kinds = dict.fromkeys(self.measured, LIST)
        kinds |= dict.fromkeys(pictures, pa.list_(pa.list_(LIST)))
        columns |= {
            f"stats/{name}/{s}": pa.list_(INT) if s == "count" else kind
            for name, kind in kinds.items()
            for s in STATISTICS
        }
        columns |= {f"capex/{name}": TYPES[kind] for name, kind in FIELDS.items()}
        return pa.schema(columns.items())

    def info(self, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
        """meta/info.json."""
        return {
            "codebase_version": CODEBASE_VERSION[self.version],
            "robot_type": self.spec.world,
            "total_episodes": episodes,
            "total_frames": frames,
            "total_tasks": tasks,
            "chunks_size": FILES_PER_CHUNK,
            "data_files_size_in_mb": DATA_FILE_MB,
            "video_files_size_in_mb": VIDEO_FILE_MB,
            "fps": self.fps,
            "splits": {"train": f"0:{episodes}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH if self.pipeline.video else None,
            "features": self.features,
        }


def _with_hints(columns: dict[str, pa.DataType], vector: str = "List") -> pa.Schema:
    """A schema that tells the datasets library which columns are pictures. Its version 4 calls a
    vector a List; before it was a Sequence.
    """
    hints: dict[str, Any] = {}
    for name, kind in columns.items():
        if kind == PICTURE:
            hints[name] = {"_type": "Image"}
        elif pa.types.is_list(kind) or pa.types.is_struct(kind):
            hints[name] = _nested_hint(kind)
        elif pa.types.is_fixed_size_list(kind):
            value = {"dtype": _dtype(kind.value_type), "_type": "Value"}
            hints[name] = {"feature": value, "length": kind.list_size, "_type": vector}
        else:
            hints[name] = {"dtype": _dtype(kind), "_type": "Value"}
    return pa.schema(columns.items(), {"huggingface": json.dumps({"info": {"features": hints}})})


def _nested_hint(kind: pa.DataType) -> dict[str, Any]:
    """Of lists and tables within a column."""
    if pa.types.is_list(kind):
        return {"feature": _nested_hint(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _nested_hint(field.type) for field in kind}
    return {"dtype": _dtype(kind), "_type": "Value"}


def _dtype(kind: pa.DataType) -> str:
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
