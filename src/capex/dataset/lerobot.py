"""LeRobot datasets, version 3.0 of the format, written with pyarrow and PyAV, without LeRobot.

Workers shoot one episode each into a shard: its rows and pictures as Parquet, its videos as
segments. The parent joins the shards in order, an episode per row group, and writes the metadata;
meta/info.json comes last. Memory holds one episode per worker, however many there are.
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

from capex.dataset import features, statistics, video
from capex.dataset.features import DatasetLayout
from capex.dataset.frames import Take, open_take
from capex.dataset.provenance import provenance
from capex.dataset.rolling import FileNumber, ParquetFiles, VideoFiles
from capex.dataset.selection import Candidate
from capex.dataset.shards import Tell, shoot_in_order
from capex.dataset.statistics import Histogram, Stats
from capex.run.files import write_json
from capex.worlds import Image

EPISODES_AT_ONCE = 100  # rows of meta/episodes that are written together
PNG_LEVEL = 1  # a third of the time of level 6 for a tenth more bytes


@dataclass(frozen=True)
class ShardJob:
    """One episode for a worker."""

    attempt: Candidate
    layout: DatasetLayout
    shards: Path
    episode_index: int
    first_index: int
    task_index: int


@dataclass(frozen=True)
class Shard:
    """What a worker leaves: rows, depths and video segments if any, and what the parent needs."""

    rows: Path
    depths: Path | None
    segments: dict[str, Path]
    histograms: dict[str, Histogram]
    provenance: dict[str, Any]
    waypoints: list[dict[str, Any]]
    length: int


def shoot(job: ShardJob) -> Shard:
    """A worker's task: render an episode and write its shard."""
    take = open_take(job.attempt.summary.path)
    return write_shard(job, take, take.pictures(job.layout.pipeline))


def write_shard(job: ShardJob, take: Take, pictures: Iterable[dict[str, Image]]) -> Shard:
    """Write one episode's rows and pictures."""
    layout, name = job.layout, f"{job.episode_index:06d}"
    cameras, pipeline = layout.cameras, layout.pipeline
    histograms = {camera: statistics.empty_histogram() for camera in cameras}
    encoded: dict[str, list[bytes]] = {layout.key(camera): [] for camera in cameras}
    depths: dict[str, list[bytes]] = {f"depth.{camera}": [] for camera in cameras}
    filmed = cameras if pipeline.video else ()
    segments = {camera: job.shards / f"{name}-{camera}.mp4" for camera in filmed}
    encoders = {
        camera: video.Segment(path, pipeline.size, layout.fps, pipeline.crf)
        for camera, path in segments.items()
    }
    for images in pictures:
        for camera, image in images.items():
            picture = Picture.fromarray(image)
            histograms[camera] += np.array(picture.histogram(), dtype=np.int64).reshape(3, 256)
            if pipeline.video:
                encoders[camera].add(image)
            else:
                encoded[layout.key(camera)].append(_png(picture))
            if pipeline.depth:
                depth_m = take.env.depth(camera, pipeline.size).depth_m
                depths[f"depth.{camera}"].append(_png(_millimetres(depth_m)))
    for encoder in encoders.values():
        encoder.close()
    columns = _columns(job, take)
    rows = _write_table(job.shards / f"{name}.parquet", layout.rows, columns, encoded)
    deep = None
    if pipeline.depth:
        path = job.shards / f"{name}-depth.parquet"
        deep = _write_table(path, layout.depth_rows, columns, depths)
    known = provenance(job.attempt, take, pipeline)
    return Shard(rows, deep, segments, histograms, known, take.waypoints(), take.length)


def _png(picture: Picture.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=PNG_LEVEL)
    return out.getvalue()


def _millimetres(depth_m: npt.NDArray[np.float32]) -> Picture.Image:
    """Depth as 16-bit pixels, 0 where nothing is seen or it is farther than 65 m."""
    near = depth_m * 1000.0 < 65535.0
    depth_mm = np.where(near, np.round(np.where(near, depth_m, 0.0) * 1000.0), 0)
    return Picture.fromarray(depth_mm.astype(np.uint16))


def _columns(job: ShardJob, take: Take) -> dict[str, npt.NDArray[Any]]:
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


def _write_table(
    path: Path,
    schema: pa.Schema,
    columns: dict[str, npt.NDArray[Any]],
    pictures: dict[str, list[bytes]],
) -> Path:
    arrays = []
    for field in schema:
        if field.name in pictures:
            content = pa.array(pictures[field.name], pa.binary())
            parts = [content, pa.nulls(len(content), pa.string())]
            arrays.append(pa.StructArray.from_arrays(parts, ["bytes", "path"]))
        elif pa.types.is_fixed_size_list(field.type):
            numbers = columns[field.name].astype(field.type.value_type.to_pandas_dtype())
            flat = pa.array(numbers.ravel())
            arrays.append(pa.FixedSizeListArray.from_arrays(flat, field.type.list_size))
        else:
            numbers = columns[field.name].astype(field.type.to_pandas_dtype())
            arrays.append(pa.array(numbers, type=field.type))
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="none")
    return path


def write_dataset(
    folder: Path,
    attempts: Sequence[Candidate],
    layout: DatasetLayout,
    *,
    parallel: int,
    tell: Tell,
    finish: Callable[[], None],
) -> None:
    """Write a dataset into an empty folder; `finish` adds files before meta/info.json ends it."""
    texts = dict.fromkeys(a.summary.instruction for a in attempts)
    tasks = {text: number for number, text in enumerate(texts)}
    shards = folder / "shards"
    shards.mkdir()
    jobs, frames = [], 0
    for number, attempt in enumerate(attempts):
        jobs.append(
            ShardJob(attempt, layout, shards, number, frames, tasks[attempt.summary.instruction])
        )
        frames += attempt.summary.steps
    joiner = Joiner(folder, layout)
    for job, shard in zip(jobs, shoot_in_order(shoot, jobs, parallel, tell), strict=True):
        joiner.join(job, shard)
    joiner.close()
    shards.rmdir()
    _write_tasks(folder / "meta" / "tasks.parquet", list(tasks))
    finish()
    write_json(folder / "meta" / "info.json", layout.info(len(attempts), frames, len(tasks)))


class Joiner:
    """Joins shards in order into the dataset's files."""

    def __init__(self, folder: Path, layout: DatasetLayout):
        self._folder, self._layout, self._frames = folder, layout, 0
        packing = "snappy" if layout.pipeline.video else "none"  # PNG is packed already
        self._data = ParquetFiles(folder, features.DATA_PATH, layout.rows, packing)
        self._depth = ParquetFiles(folder, features.DEPTH_PATH, layout.depth_rows, "none")
        self._episodes = ParquetFiles(folder, features.EPISODES_PATH, layout.episodes)
        self._rows: list[dict[str, Any]] = []  # of meta/episodes, not yet written
        self._videos: dict[str, VideoFiles] = {}
        for camera in layout.cameras if layout.pipeline.video else ():
            pattern = features.VIDEO_PATH.replace("{video_key}", layout.key(camera))
            self._videos[camera] = VideoFiles(folder, pattern, layout.fps)
        self._spool = statistics.Spool(folder / "shards" / "spool", layout.measured)
        self._histograms = {camera: statistics.empty_histogram() for camera in layout.cameras}
        (folder / "meta").mkdir()
        path = folder / "meta" / "waypoints.parquet"
        self._waypoints = pq.ParquetWriter(path, features.WAYPOINTS)

    def join(self, job: ShardJob, shard: Shard) -> None:
        """Add the next episode; its shard is removed."""
        table = pq.read_table(shard.rows)
        chunk, file = self._data.append(table, shard.rows.stat().st_size)
        row: dict[str, Any] = {
            "episode_index": job.episode_index,
            "tasks": [job.attempt.summary.instruction],
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
        if shard.depths is not None:
            self._depth.append(pq.read_table(shard.depths), shard.depths.stat().st_size)
            shard.depths.unlink()
        for path in (shard.rows, *shard.segments.values()):
            path.unlink()
        for name, stats in self._measure(table, shard).items():
            row |= {f"stats/{name}/{kind}": value for kind, value in stats.items()}
        row |= {f"capex/{name}": value for name, value in shard.provenance.items()}
        self._rows.append(row)
        if len(self._rows) == EPISODES_AT_ONCE:
            self._flush_rows()
        if shard.waypoints:
            rows = [{"episode_index": job.episode_index} | w for w in shard.waypoints]
            self._waypoints.write_table(pa.Table.from_pylist(rows, schema=features.WAYPOINTS))
        self._frames += shard.length

    def _measure(self, table: pa.Table, shard: Shard) -> dict[str, Stats]:
        """Statistics of one episode, and its share of those of all."""
        vectors = {name: _numbers(table[name]) for name in self._layout.measured}
        self._spool.add(vectors)
        for camera, counts in shard.histograms.items():
            self._histograms[camera] += counts
        stats = {
            name: statistics.describe(v.reshape(shard.length, -1)) for name, v in vectors.items()
        }
        return stats | self._picture_stats(shard.histograms, shard.length)

    def _picture_stats(self, histograms: dict[str, Histogram], frames: int) -> dict[str, Stats]:
        key = self._layout.key
        return {
            key(camera): statistics.describe_images(c, frames) for camera, c in histograms.items()
        }

    def _flush_rows(self) -> None:
        def table(number: FileNumber) -> pa.Table:
            chunk, file = number
            where = {"meta/episodes/chunk_index": chunk, "meta/episodes/file_index": file}
            rows = [row | where for row in self._rows]
            return pa.Table.from_pylist(rows, schema=self._layout.episodes)

        self._episodes.append(table, size_bytes=0)
        self._rows.clear()

    def close(self) -> None:
        """Finish all files and write meta/stats.json."""
        if self._rows:
            self._flush_rows()
        for videos in self._videos.values():
            videos.close()
        for files in (self._data, self._depth, self._episodes, self._waypoints):
            files.close()
        stats = self._spool.describe() | self._picture_stats(self._histograms, self._frames)
        write_json(self._folder / "meta" / "stats.json", stats)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values = column.combine_chunks()
    flat = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)


def _write_tasks(path: Path, tasks: list[str]) -> None:
    """meta/tasks.parquet as pandas reads it: the text is the index, the number the only column."""
    number, index = "task_index", "__index_level_0__"
    numbers = pa.array(range(len(tasks)), pa.int64())
    table = pa.table({number: numbers, index: pa.array(tasks, pa.string())})
    keys = ("name", "field_name", "pandas_type", "numpy_type", "metadata")
    columns = [
        dict(zip(keys, (number, number, "int64", "int64", None), strict=True)),
        dict(zip(keys, (None, index, "unicode", "object", None), strict=True)),
    ]
    pandas = {"index_columns": [index], "column_indexes": [], "columns": columns}
    pandas["pandas_version"] = "2.0.0"
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
