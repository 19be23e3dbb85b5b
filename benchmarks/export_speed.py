"""Frames per second of our dataset writer against LeRobot's own, on the same frames, in one run.

`python benchmarks/export_speed.py [EPISODES]` collects with the expert, renders every frame once,
then lets each writer write them: pictures and statistics, rows and metadata, until the dataset is
complete. Needs what `make test` installs.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from capex.campaign.api import demonstrate
from capex.dataset import Filters, Pipeline
from capex.dataset.features import DatasetLayout
from capex.dataset.frames import Take, open_take
from capex.dataset.lerobot import Joiner, ShardJob, write_shard
from capex.dataset.selection import Candidate, find_attempts, select
from capex.run.files import write_json
from capex.worlds import Image

TASK = "PickPlaceCounterToStove"
SIZE = (256, 256)
CAMERAS = ("left", "right", "wrist")
ROUNDS = 2
Shot = tuple[Candidate, Take, list[dict[str, Image]]]


def shoot(episodes: int, folder: Path) -> list[Shot]:
    """Episodes with all their pictures in memory."""
    demonstrate("expert", f"kitchen:{TASK}", starts=range(episodes), out=folder)
    shots = []
    for attempt in select("bench", find_attempts(folder), Filters(uncertified=True)).attempts:
        take = open_take(attempt.summary.path)
        shots.append((attempt, take, list(take.pictures(Pipeline(SIZE, CAMERAS)))))
    return shots


def ours(shots: list[Shot], out: Path, *, video: bool) -> None:
    """Our writer, one process."""
    layout = DatasetLayout(shots[0][1].spec, Pipeline(SIZE, CAMERAS, video=video))
    shards = out / "shards"
    shards.mkdir(parents=True)
    joiner, first = Joiner(out, layout), 0
    for number, (attempt, take, pictures) in enumerate(shots):
        take.views.env.reset(take.start)
        job = ShardJob(attempt, layout, shards, number, first, 0)
        joiner.join(job, write_shard(job, take, pictures))
        first += take.length
    joiner.close()
    write_json(out / "meta" / "info.json", layout.info(len(shots), first, 1))


def theirs(shots: list[Shot], out: Path, **options: Any) -> None:
    """LeRobot's writer on the same features."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    spec = shots[0][1].spec
    layout = DatasetLayout(spec, Pipeline(SIZE, CAMERAS, video=options["use_videos"]))
    kept = ("observation.", "action")
    features = {name: f for name, f in layout.features.items() if name.startswith(kept)}
    features = {
        name: {k: v for k, v in f.items() if k != "info"} | {"shape": tuple(f["shape"])}
        for name, f in features.items()
    }
    dataset = LeRobotDataset.create(
        "capex/bench", layout.fps, features, root=out, robot_type="kitchen", **options
    )
    for attempt, take, pictures in shots:
        state, action = take.state.astype("float32"), take.action
        for k, images in enumerate(pictures):
            frame = {layout.key(camera): image for camera, image in images.items()}
            dataset.add_frame(
                frame
                | {
                    "observation.state": state[k],
                    "action": action[k],
                    "task": attempt.summary.instruction,
                }
            )
        dataset.save_episode()
    dataset.finalize()


def main() -> None:
    importlib.import_module("lerobot.datasets.lerobot_dataset")  # its time is not the writer's
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    writers: dict[str, list[tuple[str, Callable[[list[Shot], Path], None]]]] = {
        "images": [
            ("ours", lambda s, o: ours(s, o, video=False)),
            ("LeRobot 0.4.4", lambda s, o: theirs(s, o, use_videos=False)),
            (
                "LeRobot 0.4.4, 12 writer threads",
                lambda s, o: theirs(s, o, use_videos=False, image_writer_threads=12),
            ),
        ],
        "video": [
            ("ours, h264", lambda s, o: ours(s, o, video=True)),
            ("LeRobot 0.4.4, AV1 (its default)", lambda s, o: theirs(s, o, use_videos=True)),
            ("LeRobot 0.4.4, h264", lambda s, o: theirs(s, o, use_videos=True, vcodec="h264")),
            (
                "LeRobot 0.4.4, h264, 12 threads",
                lambda s, o: theirs(s, o, use_videos=True, vcodec="h264", image_writer_threads=12),
            ),
            (
                "LeRobot 0.4.4, h264, streaming",
                lambda s, o: theirs(s, o, use_videos=True, vcodec="h264", streaming_encoding=True),
            ),
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        shots = shoot(episodes, Path(folder) / "run")
        frames = sum(take.length for _, take, _ in shots)
        table = Table(
            title=(
                f"writing {len(shots)} episodes, {frames} frames, three cameras at"
                f" {SIZE[0]}x{SIZE[1]}; best of {ROUNDS}"
            )
        )
        for column in ("mode", "writer", "frames/s", "MB", "ours is"):
            table.add_column(column, justify="left" if column in ("mode", "writer") else "right")
        for mode, rows in writers.items():
            rates: dict[str, float] = {}
            sizes: dict[str, float] = {}
            for number in range(ROUNDS):  # in turns, so that a busy machine is unfair to all alike
                for name, write in rows:
                    out = Path(folder) / f"{mode}-{number}"
                    began = time.perf_counter()
                    write(shots, out)
                    rates[name] = max(rates.get(name, 0.0), frames / (time.perf_counter() - began))
                    sizes[name] = (
                        sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) / 2**20
                    )
                    shutil.rmtree(out)
            mine = rates[rows[0][0]]
            for name, rate in rates.items():
                table.add_row(
                    mode,
                    name,
                    f"{rate:.0f}",
                    f"{sizes[name]:.1f}",
                    "" if rate == mine else f"{mine / rate:.1f}x",
                )
        Console().print(table)


if __name__ == "__main__":
    main()
