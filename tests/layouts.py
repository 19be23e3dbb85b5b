"""Two demonstrations in every layout of a dataset: pictures, video, HDF5, and LeRobot's v2.1."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from capex.dataset import Filters, Pipeline, export_run
from capex.run.files import read_json, write_json

QUICK = Pipeline((32, 24), ("wrist",))
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


def write_layouts(demos: Path, root: Path) -> None:
    """Folders images, video, hdf5 and v21."""
    two = Filters(max=2)
    export_run(demos, root / "images", filters=two, pipeline=QUICK)
    export_run(demos, root / "video", filters=two, pipeline=replace(QUICK, video=True))
    deep = replace(QUICK, depth=True)
    export_run(demos, root / "hdf5", filters=two, pipeline=deep, format="hdf5")
    _as_v21(root / "images", root / "v21")


def _as_v21(source: Path, out: Path) -> None:
    """One data file per episode, metadata as JSON lines."""
    data = out / "data/chunk-000"
    data.mkdir(parents=True)
    (out / "meta").mkdir()
    path = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
    info = read_json(source / "meta/info.json") | {"codebase_version": "v2.1", "data_path": path}
    write_json(out / "meta/info.json", info)
    table, episodes, stats = pq.read_table(source / DATA), [], []
    for row in pq.read_table(source / EPISODES).to_pylist():
        index = row["episode_index"]
        episodes.append({n: row[n] for n in ("episode_index", "tasks", "length")})
        described: dict = {}
        for name, value in row.items():
            if name.startswith("stats/"):
                feature, _, kind = name.removeprefix("stats/").rpartition("/")
                described.setdefault(feature, {})[kind] = value
        stats.append({"episode_index": index, "stats": described})
        piece = table.slice(row["dataset_from_index"], row["length"])
        pq.write_table(piece, data / f"episode_{index:06d}.parquet")
    tasks = [{"task_index": 0, "task": episodes[0]["tasks"][0]}]
    for name, lines in (("episodes", episodes), ("episodes_stats", stats), ("tasks", tasks)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (out / f"meta/{name}.jsonl").write_text(text)
