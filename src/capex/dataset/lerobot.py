"""LeRobot datasets, version 3.0 of the format, written with pyarrow and PyAV; LeRobot itself is not
needed.

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

from capex.dataset import video
from capex.dataset.features import (
    DATA_PATH,
    DEPTH_PATH,
    EPISODES_PATH,
    VIDEO_PATH,
    WAYPOINTS,
    Layout,
)
from capex.dataset.frames import Take, open_take
from capex.dataset.provenance import provenance
from capex.dataset.rolling import ParquetFiles, VideoFiles
from capex.dataset.selection import Candidate
from capex.dataset.shards import Tell, shoot_in_order
from capex.dataset.statistics import (
    Histogram,
    Spool,
    Stats,
    describe,
    describe_images,
    empty_histogram,
)
from capex.run.files import write_json
from capex.worlds import Image

EPISODES_AT_ONCE = 100  # rows of meta/episodes that are written together
PNG_LEVEL = 1  # a third of the time of level 6 for a tenth more bytes


@dataclass(frozen=True)
class ShardJob:
    """One episode for a worker."""

    attempt: Candidate
    layout: Layout
    shards: Path
    episode_index: int
    first_index: int
    task_index: int


@dataclass(frozen=True)
class Shard:
    """What a worker leaves: the rows, the depths and video segments if there are any, and what the
    parent must know about them.
    """

    rows: Path
    depths: Path | None
    segments: dict[str, Path]
    histograms: dict[str, Histogram]
    provenance: dict[str, Any]
    waypoints: list[dict[str, Any]]
    length: int


def shoot(job: ShardJob) -> Shard:
    """A worker's task: render an episode and write its shard."""
    take = open_take(job.attempt.episode)
    return write_shard(job, take, take.pictures(job.layout.pipeline))


def write_shard(job: ShardJob, take: Take, pictures: Iterable[dict[str, Image]]) -> Shard:
    """Write one episode's rows and pictures."""
    layout, name = job.layout, f"{job.episode_index:06d}"
    histograms = {camera: empty_histogram() for camera in layout.cameras}
    encoded: dict[str, list[bytes]] = {layout.key(camera): [] for camera in layout.cameras}
    depths: dict[str, list[bytes]] = {
        f"depth.{camera}": [] for camera in (layout.cameras if layout.pipeline.depth else ())
    }
    segments = (
        {camera: job.shards / f"{name}-{camera}.mp4" for camera in layout.cameras}
        if layout.pipeline.video
        else {}
    )
    encoders = {
        camera: video.Segment(path, layout.pipeline.size, layout.fps, layout.pipeline.crf)
        for camera, path in segments.items()
    }
    for images in pictures:
        for camera, image in images.items():
            picture = Picture.fromarray(image)
            histograms[camera] += np.array(picture.histogram(), dtype=np.int64).reshape(3, 256)
            if layout.pipeline.video:
                encoders[camera].add(image)
            else:
                encoded[layout.key(camera)].append(_png(picture))
            if depths:
                depths[f"depth.{camera}"].append(
                    _png(_millimetres(take.env.depth(camera, layout.pipeline.size).depth_m))
                )
    for encoder in encoders.values():
        encoder.close()
    columns = _columns(job, take)
    rows = _write_table(job.shards / f"{name}.parquet", layout.rows, columns, encoded)
    deep = (
        _write_table(job.shards / f"{name}-depth.parquet", layout.depth_rows, columns, depths)
        if depths
        else None
    )
    known = provenance(job.attempt, take, layout.pipeline)
    return Shard(rows, deep, segments, histograms, known, take.waypoints(), take.length)


def _png(picture: Picture.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=PNG_LEVEL)
    return out.getvalue()


def _millimetres(depth_m: npt.NDArray[np.float32]) -> Picture.Image:
    """Depth as 16-bit pixels, 0 where nothing is seen or it is farther than 65 m."""
    near = depth_m * 1000.0 < 65535.0
    return Picture.fromarray(
        np.where(near, np.round(np.where(near, depth_m, 0.0) * 1000.0), 0).astype(np.uint16)
    )


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
            arrays.append(
                pa.StructArray.from_arrays(
                    [content, pa.nulls(len(content), pa.string())], ["bytes", "path"]
                )
            )
        elif pa.types.is_fixed_size_list(field.type):
            numbers = columns[field.name].astype(field.type.value_type.to_pandas_dtype())
            arrays.append(
                pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), field.type.list_size)
            )
        else:
            arrays.append(
                pa.array(columns[field.name].astype(field.type.to_pandas_dtype()), type=field.type)
            )
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="none")
    return path


def write_dataset(
    folder: Path,
    attempts: Sequence[Candidate],
    layout: Layout,
    *,
    parallel: int,
    tell: Tell,
    finish: Callable[[Path], None],
) -> None:
    """Write a dataset into an empty folder; `finish` adds files before meta/info.json ends it."""
    tasks = {
        text: number for number, text in enumerate(dict.fromkeys(a.instruction for a in attempts))
    }
    shards = folder / "shards"
    shards.mkdir()
    jobs, frames = [], 0
    for number, attempt in enumerate(attempts):
        jobs.append(ShardJob(attempt, layout, shards, number, frames, tasks[attempt.instruction]))
        frames += attempt.steps
    joiner = Joiner(folder, layout)
    for job, shard in zip(jobs, shoot_in_order(shoot, jobs, parallel, tell), strict=True):
        joiner.join(job, shard)
    joiner.close()
    shards.rmdir()
    _write_tasks(folder / "meta" / "tasks.parquet", list(tasks))
    finish(folder)
    write_json(folder / "meta" / "info.json", layout.info(len(attempts), frames, len(tasks)))


class Joiner:
    """Joins shards in order into the dataset's files."""

    def __init__(self, folder: Path, layout: Layout):
        self._folder, self._layout, self._frames = folder, layout, 0
        # PNG is packed already.
        self._data = ParquetFiles(
            folder, DATA_PATH, layout.rows, "snappy" if layout.pipeline.video else "none"
        )
        self._depth = ParquetFiles(folder, DEPTH_PATH, layout.depth_rows, "none")
        self._episodes = ParquetFiles(folder, EPISODES_PATH, layout.episodes)
        self._rows: list[dict[str, Any]] = []  # of meta/episodes, not yet written
        self._videos = {
            camera: VideoFiles(
                folder, VIDEO_PATH.replace("{video_key}", layout.key(camera)), layout.fps
            )
            for camera in (layout.cameras if layout.pipeline.video else ())
        }
        self._spool = Spool(folder / "shards" / "spool", layout.measured)
        self._histograms = {camera: empty_histogram() for camera in layout.cameras}
        (folder / "meta").mkdir()
        self._waypoints = pq.ParquetWriter(folder / "meta" / "waypoints.parquet", WAYPOINTS)

    def join(self, job: ShardJob, shard: Shard) -> None:
        """Add the next episode; its shard is removed."""
        table = pq.read_table(shard.rows)
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
        if shard.depths is not None:
            self._depth.append(pq.read_table(shard.depths), shard.depths.stat().st_size)
        for path in (
            shard.rows,
            *shard.segments.values(),
            *([shard.depths] if shard.depths else []),
        ):
            path.unlink()
        stats = self._measure(table, shard)
        row |= {
            f"stats/{name}/{kind}": value
            for name, found in stats.items()
            for kind, value in found.items()
        }
        self._rows.append(
            row | {f"capex/{name}": value for name, value in shard.provenance.items()}
        )
        if len(self._rows) == EPISODES_AT_ONCE:
            self._flush_rows()
        if shard.waypoints:
            numbered = [
                {"episode_index": job.episode_index} | waypoint for waypoint in shard.waypoints
            ]
            self._waypoints.write_table(pa.Table.from_pylist(numbered, schema=WAYPOINTS))
        self._frames += shard.length

    def _measure(self, table: pa.Table, shard: Shard) -> dict[str, Stats]:
        """Statistics of one episode, and its share of those of all."""
        vectors = {name: _numbers(table[name]) for name in self._layout.measured}
        self._spool.add(vectors)
        for camera, counts in shard.histograms.items():
            self._histograms[camera] += counts
        stats = {
            name: describe(values.reshape(shard.length, -1)) for name, values in vectors.items()
        }
        return stats | {
            self._layout.key(camera): describe_images(counts, shard.length)
            for camera, counts in shard.histograms.items()
        }

    def _flush_rows(self) -> None:
        def table(place: tuple[int, int]) -> pa.Table:
            where = {"meta/episodes/chunk_index": place[0], "meta/episodes/file_index": place[1]}
            return pa.Table.from_pylist(
                [row | where for row in self._rows], schema=self._layout.episodes
            )

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
        stats: dict[str, Stats] = self._spool.describe()
        stats |= {
            self._layout.key(camera): describe_images(counts, self._frames)
            for camera, counts in self._histograms.items()
        }
        write_json(self._folder / "meta" / "stats.json", stats)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values = column.combine_chunks()
    flat = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)


def _write_tasks(path: Path, tasks: list[str]) -> None:
    """meta/tasks.parquet as pandas reads it: the text is the index, the number the only column."""
    table = pa.table(
        {
            "task_index": pa.array(range(len(tasks)), pa.int64()),
            "__index_level_0__": pa.array(tasks, pa.string()),
        }
    )
    described = [
        {
            "name": "task_index",
            "field_name": "task_index",
            "pandas_type": "int64",
            "numpy_type": "int64",
            "metadata": None,
        },
        {
            "name": None,
            "field_name": "__index_level_0__",
            "pandas_type": "unicode",
            "numpy_type": "object",
            "metadata": None,
        },
    ]
    pandas = {
        "index_columns": ["__index_level_0__"],
        "column_indexes": [],
        "columns": described,
        "pandas_version": "2.0.0",
    }
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
