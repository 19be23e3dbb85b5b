"""Read datasets with the LeRobot of this environment, whichever version it is, frame by frame, and
print what it hands out as one JSON line each.

    python scripts/read_lerobot.py DATASET..

Actions are compared with the Parquet files, so that a reader that skips or shifts frames is found.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

STYLES = ("subtask", "plan", "memory", "motion")
SPAN = (torch.min, torch.mean, torch.max)


def read(root: Path) -> dict[str, Any]:
    """Every frame with a window over actions; the first, middle and last ones with their words."""
    windows = {"action": [0.0, 0.05]}
    dataset = LeRobotDataset(
        "capex/read", root=root, delta_timestamps=windows, video_backend="pyav"
    )
    files = sorted((root / "data").glob("*/*.parquet"))
    rows = [
        row
        for file in files
        for row in pq.read_table(file, columns=["action", "episode_index"]).to_pylist()
    ]
    actions = np.array([row["action"] for row in rows])
    assert len(dataset) == len(rows), (len(dataset), len(rows))
    cameras, kept = list(dataset.meta.camera_keys), {0, len(rows) // 2, len(rows) - 1}
    shown, pads, taken = {}, [], list[torch.Tensor]()
    spans: dict[str, list[torch.Tensor]] = {c: [] for c in cameras}
    for k in range(len(rows)):  # pictures of thousands of frames would not fit into memory
        item = dataset[k]
        taken.append(item["action"][0])
        pads.append(bool(item["action_is_pad"][1]))
        if k % 10 == 0:
            for c in cameras:
                spans[c].append(torch.stack([f(item[c].float()) for f in SPAN]))
        if k in kept:
            shown[k] = item
    handed = torch.stack(taken).numpy()
    assert np.allclose(handed, actions, atol=1e-6)
    ends = [
        k
        for k in range(len(rows))
        if k + 1 == len(rows) or rows[k + 1]["episode_index"] != rows[k]["episode_index"]
    ]
    assert [k for k, pad in enumerate(pads) if pad] == ends
    return {
        "dataset": root.name,
        "lerobot": importlib.metadata.version("lerobot"),
        "python": ".".join(map(str, sys.version_info[:2])),
        "episodes": dataset.num_episodes,
        "frames": len(dataset),
        "task": shown[0]["task"],
        "pictures": {c: [list(shown[0][c].shape), _span(spans[c])] for c in cameras},
        "depth": list(getattr(dataset.meta, "depth_keys", [])),
        "words": {k: words(dataset, item) for k, item in shown.items()},
    }


def _span(each: list[torch.Tensor]) -> list[float]:
    """The smallest, mean and largest pixel, from those of single pictures."""
    pixels = torch.stack(each)
    low, mean, high = pixels[:, 0].min(), pixels[:, 1].mean(), pixels[:, 2].max()
    return [round(float(v), 3) for v in (low, mean, high)]


def words(dataset: Any, item: dict[str, Any]) -> dict[str, str]:
    """What holds at a frame, by the columns that the version has."""
    if "language_persistent" in item:
        from lerobot.datasets.language_render import active_at

        rows, now = item["language_persistent"], float(item["timestamp"])
        assert item["language_events"] == []
        return {s: active_at(now, persistent=rows, style=s)["content"] for s in STYLES}
    tasks = dataset.meta.tasks
    numbered = {s: item.get(f"annotation.capex.{s}") for s in STYLES}
    if isinstance(tasks, dict) and all(n is not None for n in numbered.values()):
        return {s: tasks[int(n)] for s, n in numbered.items()}
    return {"subtask": item["subtask"]} if "subtask" in item else {}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        print(json.dumps(read(Path(path))))
