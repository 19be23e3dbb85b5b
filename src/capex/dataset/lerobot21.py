"""LeRobot datasets, version 2.1 of the format, with the meta/modality.json that GR00T reads.

A file per episode: rows and pictures as Parquet, or rows as Parquet and a video per camera. What a
frame meant in words stands in columns annotation.capex.*, as GR00T keeps annotations: numbers of
texts in meta/tasks.jsonl, behind the instructions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from capex.dataset import features
from capex.dataset.features import DatasetLayout
from capex.dataset.language import STYLES
from capex.dataset.lerobot import Measures, Notes, Shard, ShardJob, plan_jobs, shoot
from capex.dataset.provenance import FIELDS
from capex.dataset.selection import Candidate
from capex.dataset.shards import Tell, shoot_in_order
from capex.dataset.words import Texts, numbered_columns
from capex.run.files import write_json

EPISODES_PER_CHUNK = 1000
DATA_PATH = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
DEPTH_PATH = "depth/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_PATH = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
PROVENANCE = pa.schema(
    [("episode_index", features.INT)] + [(n, features.TYPES[kind]) for n, kind in FIELDS.items()]
)
ROTATIONS = ("qx", "qy", "qz", "qw", "rx", "ry", "rz")


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
    jobs, texts = plan_jobs(folder, attempts, layout)
    (folder / "meta").mkdir()
    files = EpisodeFiles(folder, layout, texts)
    for job, shard in zip(jobs, shoot_in_order(shoot, jobs, parallel, tell), strict=True):
        files.add(job, shard)
    files.close()
    (folder / "shards").rmdir()
    meta = folder / "meta"
    tasks = [{"task_index": number, "task": text} for number, text in enumerate(texts)]
    _write_lines(meta / "tasks.jsonl", tasks)
    write_json(meta / "modality.json", modality(layout))
    finish()
    frames = sum(attempt.summary.steps for attempt in attempts)
    write_json(meta / "info.json", info(layout, len(attempts), frames, len(texts)))


class EpisodeFiles:
    """Puts each episode into files of its own and keeps the lines of the metadata."""

    def __init__(self, folder: Path, layout: DatasetLayout, texts: Texts):
        self._folder, self._layout, self._texts = folder, layout, texts
        self._measures, self._notes = Measures(folder, layout), Notes(folder)
        self._episodes: list[dict[str, Any]] = []
        self._stats: list[dict[str, Any]] = []
        self._provenance = pq.ParquetWriter(folder / "meta" / "provenance.parquet", PROVENANCE)

    def add(self, job: ShardJob, shard: Shard) -> None:
        """The next episode; its shard is removed."""
        index = job.episode_index
        rows = pq.read_table(shard.rows)
        columns: dict[str, str] = {
            style: features.ANNOTATED.format(style=style) for style in STYLES
        }
        words = numbered_columns(shard.words, len(rows), columns, self._texts)
        for name, column in words.items():
            rows = rows.append_column(name, column)
        packing = "snappy" if self._layout.pipeline.video else "none"  # PNG is packed already
        path = self._path(DATA_PATH, index)
        pq.write_table(rows.cast(self._layout.rows), path, compression=packing)
        shard.rows.unlink()
        for key, segment in shard.segments.items():
            segment.rename(self._path(VIDEO_PATH, index, video_key=key))
        if shard.depths is not None:
            shard.depths.rename(self._path(DEPTH_PATH, index))
        stats = self._measures.add(rows, shard)
        self._stats.append({"episode_index": index, "stats": stats})
        tasks = [job.attempt.summary.instruction]
        self._episodes.append({"episode_index": index, "tasks": tasks, "length": shard.length})
        self._notes.add(index, shard)
        known = [{"episode_index": index} | shard.provenance]
        self._provenance.write_table(pa.Table.from_pylist(known, schema=PROVENANCE))

    def _path(self, pattern: str, index: int, **names: str) -> Path:
        chunk = index // EPISODES_PER_CHUNK
        path = self._folder / pattern.format(episode_chunk=chunk, episode_index=index, **names)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def close(self) -> None:
        """Finish all files and write the statistics."""
        self._notes.close()
        self._provenance.close()
        meta = self._folder / "meta"
        _write_lines(meta / "episodes.jsonl", self._episodes)
        _write_lines(meta / "episodes_stats.jsonl", self._stats)
        write_json(meta / "stats.json", self._measures.describe())


def info(layout: DatasetLayout, episodes: int, frames: int, tasks: int) -> dict[str, Any]:
    """meta/info.json."""
    return {
        "codebase_version": "v2.1",
        "robot_type": layout.spec.world,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "total_videos": episodes * len(layout.streams),
        "total_chunks": 1 + (episodes - 1) // EPISODES_PER_CHUNK,
        "chunks_size": EPISODES_PER_CHUNK,
        "fps": layout.fps,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if layout.streams else None,
        "features": layout.features,
    }


def modality(layout: DatasetLayout) -> dict[str, Any]:
    """meta/modality.json: which numbers of state and action belong together, under which name each
    camera is asked for, and which columns are language.
    """
    languages = {"human.task_description": {"original_key": "task_index"}}
    languages |= {f"capex.{style}": {} for style in STYLES}
    return {
        "state": _groups(layout.state_names),
        "action": _groups(layout.spec.action_names),
        "video": {camera: {"original_key": layout.key(camera)} for camera in layout.cameras},
        "annotation": languages,
    }


def _groups(names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Neighbours whose names begin alike; a tip's rotation apart from its position."""
    turned = {n.rpartition("_")[0] for n in names if n.rpartition("_")[2] in ROTATIONS}
    groups: dict[str, dict[str, int]] = {}
    last = ""
    for number, name in enumerate(names):
        begin, _, part = name.rpartition("_")
        group = begin or name
        if begin in turned:
            group += "_rotation" if part in ROTATIONS else "_position"
        if group != last and group in groups:  # the same words further on
            group = name
        last = group
        groups.setdefault(group, {"start": number, "end": number})["end"] = number + 1
    # One number alone goes by its whole name: left_gripper, where others begin with left_ too.
    alone = {g: names[s["start"]] for g, s in groups.items() if s["end"] - s["start"] == 1}
    return {alone.get(group, group): span for group, span in groups.items()}


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    with open(path, "w") as file:
        file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
