"""Pictures of an episode, re-rendered from its saved states: a strip of moments and a video. Nothing is simulated again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np
from PIL import Image as Picture
from PIL import ImageDraw

from capex import worlds
from capex.errors import CapexError
from capex.store import read_json, read_steps
from capex.worlds import Env, Image, Start, State

STRIP_FRAMES = 6
STRIP_SIZE = (256, 256)
VIDEO_SIZE = (320, 320)
CAPTION_HEIGHT = 22


def open_episode(episode: Path) -> tuple[Env, dict[str, object]]:
    """The environment at an episode's start, and its record."""
    if not (episode / "record.json").is_file():
        raise CapexError(f"{episode} is no episode: it has no record.json; give a folder such as runs/NAME/chains/CHAIN/episodes/0000")
    record = read_json(episode / "record.json")
    env = worlds.make(f"{record['world']}:{record['task']}")
    env.reset(Start(record["task"], record["start"]["index"], record["start"]["seed"]))
    return env, record


def frames(env: Env, episode: Path, ticks: Sequence[int], size: tuple[int, int]) -> Iterator[dict[str, Image]]:
    """Images of all cameras at the given ticks."""
    steps = read_steps(episode)
    for tick in ticks:
        env.load_state(State(str(steps["header"]), steps["states"][tick]))
        yield env.observe(size=size)


def write_strip(episode: Path, out: Path) -> Path:
    """Six moments from start to end, a row per camera, with the instruction above."""
    env, record = open_episode(episode)
    last = len(read_steps(episode)["states"]) - 1
    ticks = [round(last * k / (STRIP_FRAMES - 1)) for k in range(STRIP_FRAMES)]
    columns = [np.concatenate(list(images.values()), axis=0) for images in frames(env, episode, ticks, STRIP_SIZE)]
    env.close()
    grid = np.concatenate(columns, axis=1)
    sheet = Picture.new("RGB", (grid.shape[1], grid.shape[0] + CAPTION_HEIGHT), "white")
    sheet.paste(Picture.fromarray(grid), (0, CAPTION_HEIGHT))
    result = "success" if record["success"] else "no success"
    caption = f"{record['world']}:{record['task']} start {episode.name}  {record['instruction']}  {result} after {record['steps']} steps"
    ImageDraw.Draw(sheet).text((6, 4), caption, fill="black")
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)
    return out


def write_video(episode: Path, out: Path, *, every: int = 2) -> Path:
    """All cameras side by side as h264 at the speed of the robot; `every` ticks one frame."""
    env, _ = open_episode(episode)
    rate = round(env.spec.control_hz / every)
    ticks = range(0, len(read_steps(episode)["states"]), every)
    out.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(out), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height = VIDEO_SIZE[0] * len(env.spec.cameras), VIDEO_SIZE[1]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "23"}
        for images in frames(env, episode, ticks, VIDEO_SIZE):
            picture = np.concatenate(list(images.values()), axis=1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    env.close()
    return out
