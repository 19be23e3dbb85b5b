"""How much a scene looks like a stored one: a score, and a picture for whoever arranges it.

runs/NAME/arrange.jpg    the stored scene, the live one, both blended, edges over each other
runs/NAME/arrange.html   shows that picture and loads it again and again; needs no server
runs/NAME/arranging/     the live picture of each camera, and scene.json: which scene, how far it is
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image as PillowImage
from PIL import ImageDraw

from capex.errors import DamagedFile
from capex.run.files import read_json, write_bytes, write_json
from capex.worlds import Image

PICTURE, PAGE = "arrange.jpg", "arrange.html"
LIVE, SCENE = "arranging", "scene.json"  # a folder of a run, and a file in it
VISIBLE = 0.08  # of the range of a pixel: a larger difference is more than noise of a camera
CELLS = 32  # a picture is this many cells wide where it is looked for the spots that differ
CELL_CHANGED = 0.25  # share of a cell's pixels: less is an edge that moved by a pixel or two
SPOTS_MAX = 6  # the largest
EDGE = 0.12  # gradient of brightness, of its range per pixel, from which on it is an edge
STORED_COLOUR, LIVE_COLOUR = (255, 60, 60), (60, 230, 90)
BAND = 22  # pixels of a panel's caption
HTML = """<!doctype html><meta charset="utf-8"><title>arrange the scene</title>
<style>body{margin:0;background:#111;color:#ccc;font:14px sans-serif}img{width:100%}</style>
<img id="view" src="arrange.jpg" alt="the scene to match">
<script>setInterval(() => {
  const next = new Image();
  next.onload = () => { document.getElementById("view").src = next.src; };
  next.src = "arrange.jpg?" + Date.now();
}, 400);</script>
<noscript><meta http-equiv="refresh" content="1"></noscript>
"""


Spot = tuple[float, float, float, float]  # left, top, right, bottom, as shares of a picture


@dataclass(frozen=True)
class SceneDifference:
    """A live picture against the stored one."""

    score: float  # mean absolute difference, 0 to 1
    changed: float  # share of the pixels that differ visibly, 0 to 1
    blend: Image
    edges: Image  # of the stored picture in red and of the live one in green, over the live one
    spots: tuple[Spot, ...]  # where things differ, the largest first


def compare(stored: Image, live: Image) -> SceneDifference:
    """How two pictures of one camera differ. A live picture of another size is brought to the
    stored one's.
    """
    height, width = stored.shape[:2]
    if live.shape != stored.shape:
        resized = PillowImage.fromarray(live).resize((width, height), PillowImage.Resampling.BOX)
        live = np.asarray(resized)
    difference = np.abs(stored.astype(np.float32) - live.astype(np.float32)) / 255.0
    blend = ((stored.astype(np.uint16) + live) // 2).astype(np.uint8)
    edges = (live // 2).astype(np.uint8)  # dimmed, so that the edges stand out
    before, after = _edges(stored), _edges(live)
    edges[after], edges[before] = LIVE_COLOUR, STORED_COLOUR
    edges[before & after] = (255, 255, 255)
    changed = difference.max(axis=2) > VISIBLE
    spots = find_spots(changed)
    return SceneDifference(float(difference.mean()), float(changed.mean()), blend, edges, spots)


def find_spots(changed: npt.NDArray[np.bool_]) -> tuple[Spot, ...]:
    """Boxes around the cells of a picture of which much has changed, neighbours together."""
    height, width = changed.shape
    side = max(1, width // CELLS)
    padded = np.pad(changed, ((0, -height % side), (0, -width % side)), mode="edge")
    rows, columns = (n // side for n in padded.shape)
    cells = padded.reshape(rows, side, columns, side)
    left = {(int(r), int(c)) for r, c in np.argwhere(cells.mean(axis=(1, 3)) > CELL_CHANGED)}
    found = []
    while left:
        group, edge = [], [left.pop()]
        while edge:
            row, column = edge.pop()
            group.append((row, column))
            near = {(row + a, column + b) for a in (-1, 0, 1) for b in (-1, 0, 1)} & left
            left -= near
            edge += near
        found.append(group)
    found.sort(key=lambda group: (-len(group), min(group)))
    scale = np.array([side / height, side / width])
    boxes = [
        (np.min(g, axis=0) * scale, np.minimum((np.max(g, axis=0) + 1) * scale, 1.0)) for g in found
    ]
    return tuple(
        (float(low[1]), float(low[0]), float(high[1]), float(high[0]))
        for low, high in boxes[:SPOTS_MAX]
    )


def compare_all(
    stored: Mapping[str, Image], live: Mapping[str, Image]
) -> dict[str, SceneDifference]:
    """By camera, where both have a picture."""
    return {name: compare(stored[name], live[name]) for name in stored if name in live}


def mean_difference(differences: Mapping[str, SceneDifference]) -> tuple[float, float]:
    """Score and changed share over the cameras."""
    rows = [(d.score, d.changed) for d in differences.values()]
    score, changed = np.mean(rows, axis=0)
    return round(float(score), 6), round(float(changed), 6)


class MatchView:
    """The file that a person looks at while arranging."""

    def __init__(
        self,
        run_dir: Path,
        stored: Mapping[str, Image],
        title: str = "",
        about: Mapping[str, Any] | None = None,
    ):
        """`about`: what scene.json says of the scene besides its title."""
        self.picture, self.page = run_dir / PICTURE, run_dir / PAGE
        self._live, self._about = run_dir / LIVE, dict(about or {})
        self._stored, self._title = dict(stored), title
        self.open_anew()

    def open_anew(self) -> None:
        """Write the page, where somebody removed it."""
        if not self.page.is_file():
            write_bytes(self.page, HTML.encode())

    def show(self, live: Mapping[str, Image]) -> tuple[float, float] | None:
        """Write the picture anew; returns score and changed share, None where nothing is stored
        for any of the cameras.
        """
        differences = compare_all(self._stored, live)
        totals = mean_difference(differences) if differences else None
        blocks = [
            _block(name, image, self._stored.get(name), differences.get(name))
            for name, image in live.items()
        ]
        write_bytes(self.picture, _jpeg(_beside(blocks, self._title)))
        self._live.mkdir(exist_ok=True)
        for name, image in live.items():
            write_bytes(self._live / f"{name}.jpg", _jpeg(image))
        score, changed = totals or (None, None)
        cameras = {name: name in differences for name in live}
        spots = {name: difference.spots for name, difference in differences.items()}
        told: dict[str, Any] = {"scene": self._title, "cameras": cameras, "score": score}
        told |= {"changed": changed, "spots": spots}
        write_json(self._live / SCENE, {**self._about, **told})
        return totals

    def close(self) -> None:
        """Remove picture and page: what they show is over."""
        for path in (self.picture, self.page):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._live, ignore_errors=True)


def scene_to_arrange(run_dir: Path) -> Mapping[str, Any] | None:
    """The scene that a campaign waits for: its title, by camera whether a stored picture is
    compared, and the difference; None where it waits for none.
    """
    try:
        scene = read_json(run_dir / LIVE / SCENE)
    except (OSError, DamagedFile):
        return None
    return scene if isinstance(scene.get("cameras"), dict) else None


def _jpeg(image: Image) -> bytes:
    out = io.BytesIO()
    PillowImage.fromarray(image).save(out, "JPEG", quality=85)
    return out.getvalue()


def _edges(image: Image) -> npt.NDArray[np.bool_]:
    brightness = image.astype(np.float32).mean(axis=2) / 255.0
    down, across = np.gradient(brightness)
    return np.asarray(np.hypot(down, across) > EDGE)


def _block(
    camera: str, live: Image, stored: Image | None, difference: SceneDifference | None
) -> Image:
    """The panels of one camera: two rows of two, or the live picture alone."""
    if stored is None or difference is None:
        return _captioned(live, f"{camera}: live")
    if live.shape != stored.shape:
        height, width = stored.shape[:2]
        live = np.asarray(PillowImage.fromarray(live).resize((width, height)))
    score = f"difference {difference.score:.3f}, {100 * difference.changed:.0f} % of pixels"
    rows = (
        (_captioned(stored, f"{camera}: stored"), _captioned(live, f"{camera}: live")),
        (
            _captioned(difference.blend, score),
            _captioned(difference.edges, "edges: red stored, green live, white both"),
        ),
    )
    return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)


def _captioned(image: Image, words: str) -> Image:
    band = PillowImage.new("RGB", (image.shape[1], BAND), (20, 20, 20))
    ImageDraw.Draw(band).text((6, 5), words, fill=(235, 235, 235))
    return np.concatenate([np.asarray(band), image], axis=0)


def _beside(blocks: list[Image], title: str) -> Image:
    """Blocks side by side, the shorter ones filled up, under one title."""
    height = max(b.shape[0] for b in blocks)
    filled = [np.pad(b, ((0, height - b.shape[0]), (0, 0), (0, 0))) for b in blocks]
    return _captioned(np.concatenate(filled, axis=1), title)
