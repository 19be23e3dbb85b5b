"""Pictures of an episode, re-rendered from its saved states or as recorded: a strip of moments and
a video. Nothing is simulated again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from PIL import Image as Picture
from PIL import ImageDraw

from capex import worlds
from capex.dataset.views import Views, open_views
from capex.errors import CapexError, DamagedFile, ErrorCode, printable
from capex.method.record import EpisodeRecord
from capex.run import read_judged
from capex.run.files import read_json
from capex.run.steps import StepArrays, read_steps
from capex.untrusted import LINK, require_plain
from capex.worlds import CameraSpec, Start
from capex.worlds.cache import Environments

STRIP_FRAMES = 6
STRIP_WIDTH_PX = 256  # of a view
VIDEO_HEIGHT_PX = 320
CAPTION_HEIGHT = 22


def read_episode(episode: Path) -> tuple[EpisodeRecord, StepArrays]:
    """The record of an episode and its arrays; whatever is wrong with them as a sentence."""
    if not (episode / "record.json").is_file():
        raise CapexError(
            f"{episode} is no episode: it has no record.json; give a folder such as"
            " runs/NAME/chains/CHAIN/episodes/0000",
            code=ErrorCode.NOT_FOUND,
        )
    require_plain(episode)
    for above in episode.parents[:3]:  # within its run
        if above.is_symlink():
            raise DamagedFile(above, LINK)
    said = read_json(episode / "record.json")
    if "world" not in said and "error" in said:
        raise CapexError(
            f"{episode} is an attempt that an error invalidated ({said['error']}); there is nothing"
            " to film",
            code=ErrorCode.WRONG_CONTENT,
        )
    return read_judged(episode), read_steps(episode)


@contextlib.contextmanager
def open_episode(episode: Path) -> Iterator[tuple[EpisodeRecord, StepArrays, Views]]:
    """An episode, and its views."""
    record, steps = read_episode(episode)
    envs = Environments()
    try:
        yield record, steps, open_views(episode, record, steps, envs)
    finally:
        envs.close()


def strip_ticks(last: int, count: int = STRIP_FRAMES) -> list[int]:
    """Moments of a strip: evenly spaced from the first state to the last."""
    return list(dict.fromkeys(round(last * k / (count - 1)) for k in range(count)))


def of_width(camera: CameraSpec, width_px: int) -> tuple[int, int]:
    """The size of a camera's view, so many pixels wide."""
    width, height = camera.size
    return width_px, max(1, round(width_px * height / width))


def of_height(camera: CameraSpec, height_px: int) -> tuple[int, int]:
    """The size of a camera's view, so many pixels high and even ones wide, as videos need."""
    width, height = camera.size
    return 2 * max(1, round(height_px * width / height / 2)), height_px


def write_strip(episode: Path, out: Path) -> Path:
    """Six moments from start to end, a row per camera, with the instruction above."""
    with open_episode(episode) as (record, steps, views):
        ticks = strip_ticks(len(steps["states"]) - 1)
        sizes = {c.name: of_width(c, STRIP_WIDTH_PX) for c in views.spec.cameras}
        columns = [
            np.concatenate(list(images.values()), axis=0) for images in views.pictures(sizes, ticks)
        ]
    grid = np.concatenate(columns, axis=1)
    sheet = Picture.new("RGB", (grid.shape[1], grid.shape[0] + CAPTION_HEIGHT), "white")
    sheet.paste(Picture.fromarray(grid), (0, CAPTION_HEIGHT))
    result = {True: "success", False: "no success", None: "not judged"}[record.success]
    caption = (
        f"{record.world}:{record.task} start {episode.name}  {record.instruction}  {result} after"
        f" {record.steps} steps"
    )
    ImageDraw.Draw(sheet).text((6, 4), printable(caption), fill="black")
    out.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(out)
    return out


SHEET_TASKS = 10  # of a world with more, one start each is drawn
SHEET_STARTS = (0, 1)
SHEET_TILE = 224
SHEET_HEAD = 20


def write_sheet(world: str, folder: Path) -> Path:
    """One picture of a world: the three views of two starts of each task with their instructions,
    and each view at full size beside it.

    Of a world with many tasks the picture holds one start each.
    """
    names = worlds.tasks(world)
    drawn = SHEET_STARTS if len(names) <= SHEET_TASKS else SHEET_STARTS[:1]
    cells = []
    folder.mkdir(parents=True, exist_ok=True)
    for task in names:
        env = worlds.make(f"{world}:{task}")
        for index in SHEET_STARTS:
            env.reset(Start(task, index))
            cell = Picture.new(
                "RGB", (SHEET_TILE * len(env.spec.cameras), SHEET_TILE + SHEET_HEAD), "white"
            )
            for k, (camera, image) in enumerate(env.observe().items()):
                picture = Picture.fromarray(image)
                picture.save(folder / f"{task}-{index}-{camera}.png")
                size = env.spec.camera(camera).fitted(SHEET_TILE)
                cell.paste(
                    picture.resize(size, Picture.Resampling.LANCZOS), (k * SHEET_TILE, SHEET_HEAD)
                )
            ImageDraw.Draw(cell).text((4, 3), f"{task} {index}: {env.instruction}", fill="black")
            if index in drawn:
                cells.append(cell)
        env.close()
    width, height = cells[0].size
    sheet = Picture.new("RGB", (2 * width + 8, -(-len(cells) // 2) * height), "white")
    for k, cell in enumerate(cells):
        sheet.paste(cell, (k % 2 * (width + 8), k // 2 * height))
    out = folder / f"{world}.png"
    sheet.save(out)
    return out


def write_video(episode: Path, out: Path, *, every: int = 2) -> Path:
    """All cameras side by side as h264 at the speed of the robot; `every` ticks one frame."""
    with open_episode(episode) as (_, steps, views):
        rate = round(views.spec.control_hz / every)
        ticks = range(0, len(steps["states"]), every)
        out.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(out), "w") as container:
            stream = container.add_stream("libx264", rate=rate)
            sizes = {c.name: of_height(c, VIDEO_HEIGHT_PX) for c in views.spec.cameras}
            stream.width = sum(width for width, _ in sizes.values())
            stream.height = VIDEO_HEIGHT_PX
            stream.pix_fmt = "yuv420p"
            stream.options = {"crf": "23"}
            for images in views.pictures(sizes, ticks):
                picture = np.concatenate(list(images.values()), axis=1)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode(None))
    return out
