"""Paths, features, columns and types of our LeRobot v3.0 datasets; in words: docs/dataset.md."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from capex.dataset import video
from capex.dataset.frames import ANNOTATIONS, OUTCOMES, Pipeline
from capex.dataset.provenance import FIELDS
from capex.dataset.rolling import DATA_FILE_MB, FILES_PER_CHUNK, VIDEO_FILE_MB
from capex.dataset.statistics import STATISTICS
from capex.worlds import Spec

VERSION = "v3.0"
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


@dataclass(frozen=True)
class DatasetLayout:
    """What every episode of a dataset has in common."""

    spec: Spec
    pipeline: Pipeline

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

    @property
    def vectors(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Vector features: type and names of their numbers. Actions keep all bits, to replay."""
        return {
            "observation.state": ("float32", self.spec.state_names),
            "action": ("float64", self.spec.action_names),
        }

    @property
    def features(self) -> dict[str, Any]:
        """The features block of info.json."""
        width, height = self.pipeline.size
        picture: dict[str, Any] = {"dtype": "image", "shape": [height, width, 3]}
        picture["names"] = ["height", "width", "channels"]
        if self.pipeline.video:
            picture |= {"dtype": "video", "info": video.feature_info((width, height), self.fps)}
        features: dict[str, Any] = {self.key(camera): picture for camera in self.cameras}
        for name, (dtype, names) in self.vectors.items():
            features[name] = {"dtype": dtype, "shape": [len(names)], "names": list(names)}
        for name, kind in (OUTCOMES | ANNOTATIONS | INDICES).items():
            features[name] = {"dtype": np.dtype(kind).name, "shape": [1], "names": None}
        return features

    @property
    def rows(self) -> pa.Schema:
        """The columns of the data files."""
        columns: dict[str, pa.DataType] = {}
        for name, feature in self.features.items():
            dtype = feature["dtype"]
            if dtype == "image":
                columns[name] = PICTURE
            elif name in self.vectors:
                columns[name] = pa.list_(getattr(pa, dtype)(), feature["shape"][0])
            elif dtype != "video":
                columns[name] = pa.bool_() if dtype == "bool" else getattr(pa, dtype)()
        return _with_hints(columns)

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
        for camera in self.cameras if self.pipeline.video else ():
            key = f"videos/{self.key(camera)}"
            columns |= {f"{key}/chunk_index": INT, f"{key}/file_index": INT}
            columns |= {f"{key}/from_timestamp": FLOAT, f"{key}/to_timestamp": FLOAT}
        pictures = [self.key(camera) for camera in self.cameras]
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
            "codebase_version": VERSION,
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


def _with_hints(columns: dict[str, pa.DataType]) -> pa.Schema:
    """A schema that tells the datasets library which columns are pictures."""
    hints: dict[str, Any] = {}
    for name, kind in columns.items():
        if kind == PICTURE:
            hints[name] = {"_type": "Image"}
        elif pa.types.is_fixed_size_list(kind):
            value = {"dtype": _dtype(kind.value_type), "_type": "Value"}
            hints[name] = {"feature": value, "length": kind.list_size, "_type": "List"}
        else:
            hints[name] = {"dtype": _dtype(kind), "_type": "Value"}
    return pa.schema(columns.items(), {"huggingface": json.dumps({"info": {"features": hints}})})


def _dtype(kind: pa.DataType) -> str:
    return {"float": "float32", "double": "float64"}.get(str(kind), str(kind))
