"""Datasets in a real browser: a folder that is not ours, with video, is looked through and compared."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capex.worlds.video import Segment, pictures
from studio_pages import browser as browser
from studio_pages import quiet, serving

LENGTHS, FPS, SIZE = (12, 18), 10, (64, 48)
CAMERA = "observation.images.front"


def colour(frame):
    """A frame's own grey, which survives a video's loss."""
    return 40 + 6 * frame


def foreign(path):
    """Two episodes as another writer leaves them: one data file, one video, no annotations."""
    for folder in ("meta/episodes/chunk-000", "data/chunk-000", f"videos/{CAMERA}/chunk-000"):
        (path / folder).mkdir(parents=True)
    total, cells = sum(LENGTHS), {"dtype": "float32", "shape": [2], "names": ["x", "y"]}
    index = {"dtype": "int64", "shape": [1], "names": None}
    video = {"dtype": "video", "shape": [SIZE[1], SIZE[0], 3], "names": ["height", "width", "c"]}
    info = {
        **{"codebase_version": "v3.0", "robot_type": "<b>arm", "fps": FPS, "total_tasks": 1},
        **{"total_episodes": 2, "total_frames": total, "splits": {"train": "0:2"}},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "features": {"action": cells, "observation.state": cells, CAMERA: video}
        | dict.fromkeys(("episode_index", "frame_index", "index"), index),
    }
    (path / "meta/info.json").write_text(json.dumps(info))
    episode = np.repeat([0, 1], LENGTHS)
    frame = np.concatenate([np.arange(n) for n in LENGTHS])
    pair = pa.array(
        np.stack([frame, -frame], 1).astype(np.float32).tolist(), pa.list_(pa.float32())
    )
    columns = {"action": pair, "observation.state": pair, "episode_index": episode}
    columns |= {"frame_index": frame, "index": np.arange(total)}
    pq.write_table(pa.table(columns), path / "data/chunk-000/file-000.parquet")
    ends = np.cumsum(LENGTHS)
    rows = {
        "episode_index": [0, 1],
        "length": LENGTHS,
        "tasks": [["Wipe the table."]] * 2,
        "dataset_from_index": [0, int(ends[0])],
        **{f"data/{name}_index": [0, 0] for name in ("chunk", "file")},
        **{f"videos/{CAMERA}/{name}_index": [0, 0] for name in ("chunk", "file")},
        f"videos/{CAMERA}/from_timestamp": [0.0, float(ends[0] / FPS)],
        f"videos/{CAMERA}/to_timestamp": [float(end / FPS) for end in ends],
    }
    pq.write_table(pa.table(rows), path / "meta/episodes/chunk-000/file-000.parquet")
    tasks = pa.table({"task_index": [0], "task": ["Wipe the table."]})
    pq.write_table(tasks, path / "meta/tasks.parquet")
    film = Segment(path / f"videos/{CAMERA}/chunk-000/file-000.mp4", SIZE, FPS, pictures(18))
    for k in range(total):
        film.add(np.full((SIZE[1], SIZE[0], 3), colour(k), np.uint8))
    film.close()
    return path


def test_a_foreign_dataset_is_looked_through_and_compared(browser, tmp_path):
    first = foreign(tmp_path / "sets" / "theirs")
    other = tmp_path / "sets" / "changed"
    shutil.copytree(first, other)
    info = json.loads((other / "meta/info.json").read_text())
    (other / "meta/info.json").write_text(json.dumps(info | {"robot_type": "x", "fps": 20}))
    with serving(tmp_path / "sets") as address:
        browser.open(f"{address.url}#/dataset")
        browser.wait("document.querySelectorAll('.runs tbody tr').length === 2")
        assert "<b>arm" in browser.ask("document.body.innerText")
        browser.open(f"{address.url}#/dataset/theirs")
        browser.wait("document.body.innerText.includes('Wipe the table.')")
        browser.ask(
            "(() => { const s = document.querySelector('[aria-label=\"compared with\"]'); s.value = 'changed'; s.dispatchEvent(new Event('change')); })()"
        )
        browser.wait("document.querySelector('.differences') !== null")
        told = browser.ask("document.querySelector('.differences').innerText")
        assert "frames per second" in told
        browser.open(f"{address.url}#/dataset/theirs/1")
        browser.wait("document.querySelectorAll('.uplot canvas').length === 2")
        browser.wait("document.querySelector('.film canvas').dataset.tick === '0'")
        middle = "document.querySelector('.film canvas').getContext('2d').getImageData(90, 90, 1, 1).data[0]"
        browser.key("End")
        browser.wait(f"document.querySelector('.film canvas').dataset.tick === '{LENGTHS[1] - 1}'")
        assert abs(browser.ask(middle) - colour(sum(LENGTHS) - 1)) < 6
        browser.key("ArrowLeft")
        browser.wait(f"document.querySelector('.film canvas').dataset.tick === '{LENGTHS[1] - 2}'")
        quiet(browser, address)
