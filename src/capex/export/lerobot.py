"""LeRobot datasets, version 3.0 of the format, written with pyarrow and PyAV; LeRobot itself is not needed.

Workers shoot one episode each into a shard: its rows and pictures as Parquet, its videos as segments. The parent joins the shards in order, an
episode per row group, and writes the metadata; meta/info.json comes last. Memory holds one episode per worker, however many there are.

docs/dataset.md describes the files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image as Picture

from capex.errors import CapexError
from capex.export import video
from capex.export.certify import digests
from capex.export.frames import ANNOTATIONS, OUTCOMES, Pipeline, Take, close_world, open_take
from capex.export.processes import run_jobs
from capex.export.rolling import DATA_FILE_MB, FILES_PER_CHUNK, VIDEO_FILE_MB, ParquetFiles, VideoFiles
from capex.export.selection import Attempt
from capex.export.statistics import Histogram, Spool, Stats, describe, describe_images
from capex.store import write_json
from capex.worlds import Image, Spec

VERSION = "v3.0"
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
INDICES = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64"}
EPISODES_AT_ONCE = 100  # rows of meta/episodes that are written together
PNG_LEVEL = 1  # a third of the time of level 6 for a tenth more bytes
WAYPOINTS = pa.schema(
    [
        ("episode_index", pa.int64()),
        ("decision", pa.int64()),
        ("waypoint", pa.int64()),
        ("phase", pa.int64()),
        ("committed", pa.bool_()),
        ("stated", pa.float64()),
        ("calibrated", pa.float64()),
        ("label", pa.int64()),
        ("status", pa.string()),
        ("report", pa.string()),
        ("from_frame", pa.int64()),
        ("to_frame", pa.int64()),
    ]
)
PROVENANCE = pa.schema(
    [
        ("capex/world", pa.string()),
        ("capex/task", pa.string()),
        ("capex/start", pa.int64()),
        ("capex/seed", pa.int64()),
        ("capex/arm", pa.string()),
        ("capex/model", pa.string()),
        ("capex/stand_in", pa.bool_()),
        ("capex/success", pa.bool_()),
        ("capex/end", pa.string()),
        ("capex/decisions", pa.int64()),
        ("capex/requests", pa.int64()),
        ("capex/cost_usd", pa.float64()),
        ("capex/confidence", pa.float64()),
        ("capex/certified", pa.bool_()),
        ("capex/uncertified", pa.string()),
        ("capex/episode", pa.string()),
        ("capex/record_sha256", pa.string()),
        ("capex/steps_sha256", pa.string()),
        ("capex/state_header", pa.string()),
        ("capex/start_state", pa.list_(pa.float64())),
        ("capex/cameras", pa.string()),
    ]
)


@dataclass(frozen=True)
class Layout:
    """What every episode of a dataset has in common: its features in order."""

    spec: Spec
    cameras: tuple[str, ...]
    pipeline: Pipeline
    use_video: bool
    crf: int

    @property
    def fps(self) -> int:
        """Frames per second: the control rate."""
        return round(self.spec.control_hz)

    def key(self, camera: str) -> str:
        """The feature name of a camera."""
        return f"observation.images.{camera}"

    @property
    def vectors(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Vector features: their type and the names of their numbers. Actions keep all their bits, so that they replay."""
        return {"observation.state": ("float32", self.spec.state_names), "action": ("float64", self.spec.action_names)}

    @property
    def features(self) -> dict[str, Any]:
        """The features block of info.json."""
        width, height = self.pipeline.size
        found: dict[str, Any] = {}
        for camera in self.cameras:
            picture = {"dtype": "image", "shape": [height, width, 3], "names": ["height", "width", "channels"]}
            if self.use_video:
                picture |= {"dtype": "video", "info": video.feature_info(self.pipeline.size, self.fps)}
            found[self.key(camera)] = picture
        for name, (dtype, names) in self.vectors.items():
            found[name] = {"dtype": dtype, "shape": [len(names)], "names": list(names)}
        for name, kind in (OUTCOMES | ANNOTATIONS).items():
            found[name] = {"dtype": np.dtype(kind).name, "shape": [1], "names": None}
        return found | {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in INDICES.items()}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the data files; they tell the datasets library which of them are pictures."""
        columns, hints = [], {}
        for name, feature in self.features.items():
            dtype, length = feature["dtype"], feature["shape"][0]
            if dtype == "video":
                continue
            if dtype == "image":
                columns.append((name, pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
                hints[name] = {"_type": "Image"}
            elif name in self.vectors:
                columns.append((name, pa.list_(getattr(pa, dtype)(), length)))
                hints[name] = {"feature": {"dtype": dtype, "_type": "Value"}, "length": length, "_type": "List"}
            else:
                columns.append((name, pa.bool_() if dtype == "bool" else getattr(pa, dtype)()))
                hints[name] = {"dtype": dtype, "_type": "Value"}
        return pa.schema(columns, {"huggingface": json.dumps({"info": {"features": hints}})})

    @property
    def measured(self) -> dict[str, int]:
        """The features that get statistics besides the pictures, with their widths; annotations are no learner's input."""
        scalars = {name: 1 for name in (*OUTCOMES, *INDICES)}
        return {name: len(names) for name, (_, names) in self.vectors.items()} | scalars


@dataclass(frozen=True)
class Job:
    """One episode for a worker."""

    attempt: Attempt
    layout: Layout
    shards: Path
    episode_index: int
    first_index: int
    task_index: int


@dataclass(frozen=True)
class Shard:
    """What a worker leaves: the rows, the video segments, and what the parent must know about them."""

    rows: Path
    segments: dict[str, Path]
    histograms: dict[str, Histogram]
    provenance: dict[str, Any]
    waypoints: list[dict[str, Any]]
    length: int


def shoot(job: Job) -> Shard:
    """A worker's task: render an episode and write its shard."""
    take = open_take(job.attempt.episode)
    return write_shard(job, take, take.pictures(job.layout.cameras, job.layout.pipeline.size))


def write_shard(job: Job, take: Take, pictures: Iterable[dict[str, Image]]) -> Shard:
    """Write one episode's rows and pictures."""
    layout, name = job.layout, f"{job.episode_index:06d}"
    histograms = {camera: np.zeros((3, 256), dtype=np.int64) for camera in layout.cameras}
    encoded: dict[str, list[bytes]] = {camera: [] for camera in layout.cameras}
    segments = {camera: job.shards / f"{name}-{camera}.mp4" for camera in layout.cameras} if layout.use_video else {}
    encoders = {camera: video.Segment(path, layout.pipeline.size, layout.fps, layout.crf) for camera, path in segments.items()}
    for images in pictures:
        for camera, image in images.items():
            picture = Picture.fromarray(image)
            histograms[camera] += np.array(picture.histogram(), dtype=np.int64).reshape(3, 256)
            if layout.use_video:
                encoders[camera].add(image)
            else:
                encoded[camera].append(_png(picture))
    for encoder in encoders.values():
        encoder.close()
    columns = _columns(job, take)
    arrays = []
    for field in layout.schema:
        if field.name in columns:
            arrays.append(_array(columns[field.name], field.type))
        else:
            camera = field.name.removeprefix(layout.key(""))
            path = pa.nulls(take.length, pa.string())
            arrays.append(pa.StructArray.from_arrays([pa.array(encoded[camera], pa.binary()), path], ["bytes", "path"]))
    rows = job.shards / f"{name}.parquet"
    pq.write_table(pa.Table.from_arrays(arrays, schema=layout.schema), rows, compression="none", row_group_size=take.length)
    return Shard(rows, segments, histograms, _provenance(job, take), take.waypoints(), take.length)


def _png(picture: Picture.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=PNG_LEVEL)
    return out.getvalue()


def _columns(job: Job, take: Take) -> dict[str, npt.NDArray[Any]]:
    frame = np.arange(take.length, dtype=np.int64)
    constant = np.ones(take.length, dtype=np.int64)
    return {
        "observation.state": take.state,
        "action": take.action,
        **take.outcomes(),
        **take.annotations(),
        "timestamp": frame / job.layout.fps,
        "frame_index": frame,
        "episode_index": constant * job.episode_index,
        "index": frame + job.first_index,
        "task_index": constant * job.task_index,
    }


def _array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(pa.array(values.astype(kind.value_type.to_pandas_dtype()).ravel()), kind.list_size)
    return pa.array(values.astype(kind.to_pandas_dtype()), type=kind)


def _provenance(job: Job, take: Take) -> dict[str, Any]:
    attempt, start, sha256 = job.attempt, take.start_state, digests(job.attempt.episode)
    return {
        "capex/world": attempt.world,
        "capex/task": attempt.task,
        "capex/start": attempt.start,
        "capex/seed": attempt.seed,
        "capex/arm": attempt.arm,
        "capex/model": attempt.model,
        "capex/stand_in": attempt.stand_in,
        "capex/success": attempt.success,
        "capex/end": attempt.end,
        "capex/decisions": attempt.decisions,
        "capex/requests": attempt.requests,
        "capex/cost_usd": attempt.cost_usd,
        "capex/confidence": attempt.confidence,
        "capex/certified": attempt.certified,
        "capex/uncertified": attempt.uncertified,
        "capex/episode": attempt.place,
        "capex/record_sha256": sha256["record.json"],
        "capex/steps_sha256": sha256["steps.npz"],
        "capex/state_header": start.header,
        "capex/start_state": start.vector.tolist(),
        "capex/cameras": json.dumps(take.cameras_json(job.layout.cameras, job.layout.pipeline.size)),
    }


class _Episodes:
    """meta/episodes: one row per episode, written a hundred at a time."""

    def __init__(self, root: Path, layout: Layout):
        fields = [("episode_index", pa.int64()), ("tasks", pa.list_(pa.string())), ("length", pa.int64())]
        fields += [(f"{part}/{which}_index", pa.int64()) for part in ("data", "meta/episodes") for which in ("chunk", "file")]
        fields += [("dataset_from_index", pa.int64()), ("dataset_to_index", pa.int64())]
        for camera in layout.cameras if layout.use_video else ():
            key = f"videos/{layout.key(camera)}"
            fields += [(f"{key}/{which}_index", pa.int64()) for which in ("chunk", "file")]
            fields += [(f"{key}/{which}_timestamp", pa.float64()) for which in ("from", "to")]
        vector, picture = pa.list_(pa.float64()), pa.list_(pa.list_(pa.list_(pa.float64())))
        kinds = {name: vector for name in layout.measured} | {layout.key(camera): picture for camera in layout.cameras}
        for name, kind in kinds.items():
            fields += [(f"stats/{name}/{s}", pa.list_(pa.int64()) if s == "count" else kind) for s in describe(np.zeros((1, 1)))]
        self._schema = pa.schema([*fields, *PROVENANCE])
        self._files = ParquetFiles(root, EPISODES_PATH, self._schema)
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == EPISODES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        def table(place: tuple[int, int]) -> pa.Table:
            where = {"meta/episodes/chunk_index": place[0], "meta/episodes/file_index": place[1]}
            return pa.Table.from_pylist([row | where for row in self._rows], schema=self._schema)

        self._files.append(table, size_bytes=0)
        self._rows.clear()

    def close(self) -> None:
        if self._rows:
            self._flush()
        self._files.close()


def write_dataset(
    folder: Path,
    attempts: Sequence[Attempt],
    layout: Layout,
    *,
    parallel: int = 1,
    tell: Callable[[int, int], None] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a dataset into an empty folder. `tell(frames done, frames in all)`; `finish` may add files before meta/info.json ends it."""
    tasks = {text: number for number, text in enumerate(dict.fromkeys(a.instruction for a in attempts))}
    total = sum(a.steps for a in attempts)
    shards = folder / "shards"
    shards.mkdir()
    jobs, first = [], 0
    for number, attempt in enumerate(attempts):
        jobs.append(Job(attempt, layout, shards, number, first, tasks[attempt.instruction]))
        first += attempt.steps
    joiner = _Joiner(folder, layout)
    waiting: dict[int, Shard] = {}
    done = 0
    for number, result in run_jobs(shoot, jobs, parallel):
        if isinstance(result, CapexError):
            raise CapexError(f"{attempts[number].episode} could not be exported: {result}")
        waiting[number] = result
        while joiner.count in waiting:
            job = jobs[joiner.count]
            joiner.join(job, waiting.pop(joiner.count))
        done += result.length
        if tell is not None:
            tell(done, total)
    close_world()
    joiner.close()
    shards.rmdir()
    _write_tasks(folder / "meta" / "tasks.parquet", list(tasks))
    if finish is not None:
        finish(folder)
    write_json(folder / "meta" / "info.json", _info(layout, len(attempts), total, len(tasks)))


class _Joiner:
    """Joins shards in order into the dataset's files, and counts what goes by."""

    def __init__(self, folder: Path, layout: Layout):
        self._folder, self._layout, self.count = folder, layout, 0
        self._data = ParquetFiles(folder, DATA_PATH, layout.schema, "none" if not layout.use_video else "snappy")
        self._videos = {
            camera: VideoFiles(folder, VIDEO_PATH.replace("{video_key}", layout.key(camera)), layout.fps)
            for camera in (layout.cameras if layout.use_video else ())
        }
        self._episodes = _Episodes(folder, layout)
        self._spool = Spool(folder / "shards" / "spool", layout.measured)
        self._histograms = {camera: np.zeros((3, 256), dtype=np.int64) for camera in layout.cameras}
        self._frames = 0
        (folder / "meta").mkdir()
        self._waypoints = pq.ParquetWriter(folder / "meta" / "waypoints.parquet", WAYPOINTS)

    def join(self, job: Job, shard: Shard) -> None:
        table = pq.read_table(shard.rows, schema=self._layout.schema)
        chunk, file = self._data.append(table, shard.rows.stat().st_size)
        row: dict[str, Any] = {
            "episode_index": job.episode_index,
            "tasks": [job.attempt.instruction],
            "length": shard.length,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": job.first_index,
            "dataset_to_index": job.first_index + shard.length,
        }
        for camera, segment in shard.segments.items():
            (chunk, file), (began, ended) = self._videos[camera].append(segment, shard.length)
            key = f"videos/{self._layout.key(camera)}"
            row |= {f"{key}/chunk_index": chunk, f"{key}/file_index": file}
            row |= {f"{key}/from_timestamp": began, f"{key}/to_timestamp": ended}
            segment.unlink()
        shard.rows.unlink()
        vectors = {name: _numbers(table[name]) for name in self._layout.measured}
        self._spool.add(vectors)
        stats = {name: describe(values.reshape(shard.length, -1)) for name, values in vectors.items()}
        stats |= {self._layout.key(camera): describe_images(counts, shard.length) for camera, counts in shard.histograms.items()}
        row |= {f"stats/{name}/{kind}": value for name, found in stats.items() for kind, value in found.items()}
        self._episodes.add(row | shard.provenance)
        for camera, counts in shard.histograms.items():
            self._histograms[camera] += counts
        rows = [{"episode_index": job.episode_index} | waypoint for waypoint in shard.waypoints]
        if rows:
            self._waypoints.write_table(pa.Table.from_pylist(rows, schema=WAYPOINTS))
        self._frames += shard.length
        self.count += 1

    def close(self) -> None:
        self._data.close()
        self._episodes.close()
        self._waypoints.close()
        for files in self._videos.values():
            files.close()
        stats: dict[str, Stats] = self._spool.describe()
        stats |= {self._layout.key(camera): describe_images(counts, self._frames) for camera, counts in self._histograms.items()}
        write_json(self._folder / "meta" / "stats.json", stats)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values = column.combine_chunks()
    flat = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)


def _write_tasks(path: Path, tasks: list[str]) -> None:
    """meta/tasks.parquet as pandas reads it: the text is the index, the number the only column."""
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), "__index_level_0__": pa.array(tasks, pa.string())})
    described = [
        {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
        {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object", "metadata": None},
    ]
    pandas = {"index_columns": ["__index_level_0__"], "column_indexes": [], "columns": described, "pandas_version": "2.0.0"}
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def _info(layout: Layout, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
    return {
        "codebase_version": VERSION,
        "robot_type": layout.spec.world,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "fps": layout.fps,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if layout.use_video else None,
        "features": layout.features,
    }
