"""LeRobot datasets, versions 3.0 and 3.1 of the format, written with pyarrow and PyAV, without
LeRobot.

Workers shoot one episode each into a shard: its rows and pictures as Parquet, its videos as
segments. The parent joins the shards in order, an episode per row group, and writes the metadata;
meta/info.json comes last. Memory holds one episode per worker, however many there are.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image as Picture

from capex.dataset import depth, features, statistics, video
from capex.dataset.features import DatasetLayout
from capex.dataset.frames import Take, open_take
from capex.dataset.language import Span, spans
from capex.dataset.provenance import provenance
from capex.dataset.rolling import FileNumber, ParquetFiles, VideoFiles
from capex.dataset.selection import Candidate
from capex.dataset.shards import Tell, shoot_in_order
from capex.dataset.statistics import Histogram, Stats
from capex.dataset.words import Texts, language_columns, numbered_columns, write_texts
from capex.run.files import write_json
from capex.worlds import Image
from capex.worlds.video import Segment
from capex.worlds.video import pictures as encode

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
    segments: dict[str, Path]  # by feature
    histograms: dict[str, Histogram]  # by feature
    provenance: dict[str, Any]
    waypoints: list[dict[str, Any]]
    words: list[Span]
    length: int


def shoot(job: ShardJob) -> Shard:
    """A worker's task: render an episode and write its shard."""
    take = open_take(job.attempt.summary.path)
    return write_shard(job, take, take.pictures(job.layout.pipeline))


def write_shard(job: ShardJob, take: Take, pictures: Iterable[dict[str, Image]]) -> Shard:
    """Write one episode's rows and pictures."""
    layout, name = job.layout, f"{job.episode_index:06d}"
    pipeline = layout.pipeline
    apart = pipeline.depth and not layout.deep  # depth in files of its own
    histograms: dict[str, Histogram] = {}
    encoded: dict[str, list[bytes]] = {}
    segments = {key: job.shards / f"{name}-{key}.mp4" for key in layout.streams}
    deep = {layout.depth_key(camera) for camera in layout.deep}
    encoders = {
        key: Segment(
            path,
            layout.sizes[key],
            layout.fps,
            video.DEPTH if key in deep else encode(pipeline.crf),
        )
        for key, path in segments.items()
    }
    for images in pictures:
        for camera, image in images.items():
            picture, key = Picture.fromarray(image), layout.key(camera)
            _count(histograms, key, np.array(picture.histogram(), np.int64).reshape(3, 256))
            if pipeline.video:
                encoders[key].add(image)
            else:
                encoded.setdefault(key, []).append(_png(picture))
            if not pipeline.depth:
                continue
            depth_mm = depth.millimetres(take.views.depth_m(camera, pipeline.sizes[camera]))
            key = layout.depth_key(camera)
            if apart:
                png = _png(Picture.fromarray(depth_mm))
                encoded.setdefault(f"depth.{camera}", []).append(png)
                continue
            _count(histograms, key, depth.histogram(depth_mm))
            if pipeline.video:
                encoders[key].add(depth.codes(depth_mm))
            else:
                encoded.setdefault(key, []).append(depth.tiff(depth_mm))
    for encoder in encoders.values():
        encoder.close()
    columns = _columns(job, take)
    rows = _write_table(job.shards / f"{name}.parquet", layout.shard_rows, columns, encoded)
    depths = None
    if apart:
        path = job.shards / f"{name}-depth.parquet"
        depths = _write_table(path, layout.depth_rows, columns, encoded)
    known = provenance(job.attempt, take, pipeline)
    words = spans(take)
    return Shard(rows, depths, segments, histograms, known, take.waypoints(), words, take.length)


def _count(histograms: dict[str, Histogram], key: str, counts: Histogram) -> None:
    histograms[key] = histograms[key] + counts if key in histograms else counts


def _png(picture: Picture.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=PNG_LEVEL)
    return out.getvalue()


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
    jobs, tasks = plan_jobs(folder, attempts, layout)
    joiner = Joiner(folder, layout)
    for job, shard in zip(jobs, shoot_in_order(shoot, jobs, parallel, tell), strict=True):
        joiner.join(job, shard)
    joiner.close()
    (folder / "shards").rmdir()
    write_texts(folder / "meta" / "tasks.parquet", "task_index", tasks)
    finish()
    frames = sum(attempt.summary.steps for attempt in attempts)
    write_json(folder / "meta" / "info.json", layout.info(len(attempts), frames, len(tasks)))


def plan_jobs(
    folder: Path, attempts: Sequence[Candidate], layout: DatasetLayout
) -> tuple[list[ShardJob], Texts]:
    """A job per attempt, and the instructions by number; the folder for shards exists."""
    shards, tasks = folder / "shards", Texts()
    shards.mkdir()
    jobs, frames = [], 0
    for number, attempt in enumerate(attempts):
        task = tasks.number(attempt.summary.instruction)
        jobs.append(ShardJob(attempt, layout, shards, number, frames, task))
        frames += attempt.summary.steps
    return jobs, tasks


class Joiner:
    """Joins shards in order into the dataset's files."""

    def __init__(self, folder: Path, layout: DatasetLayout):
        self._folder, self._layout = folder, layout
        packing = "snappy" if layout.pipeline.video else "none"  # PNG is packed already
        self._data = ParquetFiles(folder, features.DATA_PATH, layout.rows, packing)
        self._depth = ParquetFiles(folder, features.DEPTH_PATH, layout.depth_rows, "none")
        self._episodes = ParquetFiles(folder, features.EPISODES_PATH, layout.episodes)
        self._rows: list[dict[str, Any]] = []  # of meta/episodes, not yet written
        self._videos: dict[str, VideoFiles] = {}
        for key in layout.streams:
            pattern = features.VIDEO_PATH.replace("{video_key}", key)
            self._videos[key] = VideoFiles(folder, pattern, layout.fps)
        (folder / "meta").mkdir()
        self._measures = Measures(folder, layout)
        self._notes = Notes(folder)
        self._subtasks = Texts()

    def join(self, job: ShardJob, shard: Shard) -> None:
        """Add the next episode; its shard is removed."""
        table = self._worded(pq.read_table(shard.rows), shard.words)
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
        for name, segment in shard.segments.items():
            (chunk, file), (began, ended) = self._videos[name].append(segment, shard.length)
            key = f"videos/{name}"
            row |= {f"{key}/chunk_index": chunk, f"{key}/file_index": file}
            row |= {f"{key}/from_timestamp": began, f"{key}/to_timestamp": ended}
        if shard.depths is not None:
            self._depth.append(pq.read_table(shard.depths), shard.depths.stat().st_size)
            shard.depths.unlink()
        for path in (shard.rows, *shard.segments.values()):
            path.unlink()
        for name, stats in self._measures.add(table, shard).items():
            row |= {f"stats/{name}/{kind}": value for kind, value in stats.items()}
        row |= {f"capex/{name}": value for name, value in shard.provenance.items()}
        self._rows.append(row)
        if len(self._rows) == EPISODES_AT_ONCE:
            self._flush_rows()
        self._notes.add(job.episode_index, shard)

    def _worded(self, table: pa.Table, words: Sequence[Span]) -> pa.Table:
        """The rows with the columns for words that the version has."""
        if self._layout.version == "v3.1":
            added = language_columns(words, table["timestamp"])
        else:
            added = numbered_columns(
                words, len(table), {"subtask": features.SUBTASK}, self._subtasks
            )
        for name, column in added.items():
            table = table.append_column(name, column)
        return table.cast(self._layout.rows)

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
        for files in (self._data, self._depth, self._episodes, self._notes):
            files.close()
        meta = self._folder / "meta"
        if self._layout.version == "v3.0":
            write_texts(meta / "subtasks.parquet", features.SUBTASK, self._subtasks)
        write_json(meta / "stats.json", self._measures.describe())


class Measures:
    """The statistics of each episode, and of all of them together."""

    def __init__(self, folder: Path, layout: DatasetLayout):
        self._layout, self._frames = layout, 0
        self._spool = statistics.Spool(folder / "shards" / "spool", layout.measured)
        self._histograms: dict[str, Histogram] = {}

    def add(self, table: pa.Table, shard: Shard) -> dict[str, Stats]:
        """Statistics of one episode, by feature."""
        vectors = {name: _numbers(table[name]) for name in self._layout.measured}
        self._spool.add(vectors)
        for key, counts in shard.histograms.items():
            _count(self._histograms, key, counts)
        self._frames += shard.length
        stats = {
            name: statistics.describe(v.reshape(shard.length, -1)) for name, v in vectors.items()
        }
        return stats | _picture_stats(shard.histograms, shard.length)

    def describe(self) -> dict[str, Stats]:
        """Statistics of all episodes."""
        return self._spool.describe() | _picture_stats(self._histograms, self._frames)


def _picture_stats(histograms: dict[str, Histogram], frames: int) -> dict[str, Stats]:
    return {
        key: statistics.describe_images(counts, frames, 255.0 if len(counts) == 3 else 1.0)
        for key, counts in histograms.items()
    }


class Notes:
    """meta/waypoints.parquet and meta/language.parquet: what was meant, apart from the frames."""

    def __init__(self, folder: Path):
        meta = folder / "meta"
        self._waypoints = pq.ParquetWriter(meta / "waypoints.parquet", features.WAYPOINTS)
        self._language = pq.ParquetWriter(meta / "language.parquet", features.LANGUAGE)

    def add(self, episode_index: int, shard: Shard) -> None:
        """Those of one episode."""
        if shard.waypoints:
            rows = [{"episode_index": episode_index} | w for w in shard.waypoints]
            self._waypoints.write_table(pa.Table.from_pylist(rows, schema=features.WAYPOINTS))
        words = [span.as_row(episode_index) for span in shard.words]
        self._language.write_table(pa.Table.from_pylist(words, schema=features.LANGUAGE))

    def close(self) -> None:
        """Finish both files."""
        self._waypoints.close()
        self._language.close()


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    values = column.combine_chunks()
    flat = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64)
