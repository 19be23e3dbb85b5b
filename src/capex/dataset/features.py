"""What a LeRobot v3.0 dataset of ours looks like: paths, features, columns and their types.
docs/dataset.md says it in words.
"""

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
INDICES = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "float64": pa.float64(),
    "list": pa.list_(pa.float64()),
}
WAYPOINTS = pa.schema(
    [(name, pa.int64()) for name in ("episode_index", "decision", "waypoint", "phase")]
    + [
        ("committed", pa.bool_()),
        ("stated", pa.float64()),
        ("calibrated", pa.float64()),
        ("label", pa.int64()),
    ]
    + [
        ("status", pa.string()),
        ("report", pa.string()),
        ("from_frame", pa.int64()),
        ("to_frame", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Layout:
    """What every episode of a dataset has in common."""

    spec: Spec
    pipeline: Pipeline

    @property
    def cameras(self) -> tuple[str, ...]:
        """The cameras' names."""
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
        """Vector features: their type and the names of their numbers. Actions keep all their bits,
        so that they replay.
        """
        return {
            "observation.state": ("float32", self.spec.state_names),
            "action": ("float64", self.spec.action_names),
        }

    @property
    def features(self) -> dict[str, Any]:
        """The features block of info.json."""
        width, height = self.pipeline.size
        found: dict[str, Any] = {}
        for camera in self.cameras:
            picture: dict[str, Any] = {
                "dtype": "image",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
            }
            if self.pipeline.video:
                picture |= {
                    "dtype": "video",
                    "info": video.feature_info(self.pipeline.size, self.fps),
                }
            found[self.key(camera)] = picture
        for name, (dtype, names) in self.vectors.items():
            found[name] = {"dtype": dtype, "shape": [len(names)], "names": list(names)}
        for name, kind in (OUTCOMES | ANNOTATIONS).items():
            found[name] = {"dtype": np.dtype(kind).name, "shape": [1], "names": None}
        return found | {
            name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in INDICES.items()
        }

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
        indices = {name: pa.int64() for name in ("index", "episode_index", "frame_index")}
        return _with_hints(indices | {f"depth.{camera}": PICTURE for camera in self.cameras})

    @property
    def measured(self) -> dict[str, int]:
        """The features that get statistics besides the pictures, with their widths; annotations are
        no learner's input.
        """
        return {name: len(names) for name, (_, names) in self.vectors.items()} | dict.fromkeys(
            (*OUTCOMES, *INDICES), 1
        )

    @property
    def episodes(self) -> pa.Schema:
        """The columns of meta/episodes: where an episode lies, its statistics, where it
        comes from.
        """
        columns: dict[str, pa.DataType] = {
            "episode_index": pa.int64(),
            "tasks": pa.list_(pa.string()),
            "length": pa.int64(),
        }
        columns |= {
            f"{part}/{which}_index": pa.int64()
            for part in ("data", "meta/episodes")
            for which in ("chunk", "file")
        }
        columns |= {"dataset_from_index": pa.int64(), "dataset_to_index": pa.int64()}
        for camera in self.cameras if self.pipeline.video else ():
            columns |= {
                f"videos/{self.key(camera)}/{which}_index": pa.int64()
                for which in ("chunk", "file")
            }
            columns |= {
                f"videos/{self.key(camera)}/{which}_timestamp": pa.float64()
                for which in ("from", "to")
            }
        vector, picture = pa.list_(pa.float64()), pa.list_(pa.list_(pa.list_(pa.float64())))
        kinds = dict.fromkeys(self.measured, vector) | {
            self.key(camera): picture for camera in self.cameras
        }
        columns |= {
            f"stats/{name}/{s}": pa.list_(pa.int64()) if s == "count" else kind
            for name, kind in kinds.items()
            for s in STATISTICS
        }
        return pa.schema(
            [*columns.items(), *((f"capex/{name}", TYPES[kind]) for name, kind in FIELDS.items())]
        )

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
