"""Film strips: six moments of an episode in the left camera's image, with the plan in force.

Frames are rendered again from saved states or come from the recording, and waypoints are projected
with the camera's own intrinsics and pose. Where there is neither, the images that the model saw are
shown instead, without a plan.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from capex.dataset.film import STRIP_FRAMES, of_width, strip_ticks
from capex.dataset.projection import Drawn, project_plan, tips_at
from capex.dataset.views import Views, open_views
from capex.errors import CapexError, DamagedFile
from capex.method.record import EpisodeRecord, Turn
from capex.models import pictures
from capex.models.exchanges import LOG, Exchange, read_log
from capex.pose import Array
from capex.run.frames import has_frames
from capex.run.steps import StepArrays, read_steps
from capex.run.summary import Summary
from capex.untrusted import picture, read_bytes
from capex.worlds import Image, Spec
from capex.worlds.cache import Environments

WIDTH_PX = 320
JPEG_QUALITY = 72


def robot_base(text: str) -> str:
    """An executor's words about the base, which is a method's name in a report, not to be
    confused.
    """
    return re.sub(r"base (?=forward|moved|stalled|timeout)", "robot base ", text)


@dataclass(frozen=True)
class StripFrame:
    """A moment: its image, when it was, and the plan in force then."""

    jpeg: bytes
    step: int
    seconds: float
    turn: Turn | None
    drawn: tuple[Drawn, ...]
    size: tuple[int, int]  # of the image; a strip's have one


@dataclass(frozen=True)
class Strip:
    """Frames from start to end, or a sentence why there are none."""

    frames: tuple[StripFrame, ...]
    note: str = ""

    @property
    def seconds(self) -> float:
        """How long the robot moved; 0 where it is not known."""
        return self.frames[-1].seconds if self.frames else 0.0


class Filmer:
    """Makes strips; keeps the last task's environment, so episodes sorted by task are quick."""

    def __init__(self) -> None:
        self._envs = Environments()
        self._failed: dict[str, CapexError] = {}

    def strip(self, episode: Summary, record: EpisodeRecord, count: int = STRIP_FRAMES) -> Strip:
        """The strip of an episode, so many moments; whatever is missing becomes a sentence."""
        try:
            steps = read_steps(episode.path)
            if not steps["states"].size and not has_frames(episode.path):
                return _seen(episode, record, count, "This world saves no states")
            views = self._views(episode.path, record, steps)
            return Strip(tuple(_frames(views, steps, record, count)))
        except (CapexError, OSError, ValueError, KeyError, ImportError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            why = f"The episode cannot be rendered again ({reason})"
            return _seen(episode, record, count, why)

    def close(self) -> None:
        """Free the environment."""
        self._envs.close()

    def _views(self, episode: Path, record: EpisodeRecord, steps: StepArrays) -> Views:
        name = f"{record.world}:{record.task}"
        if name in self._failed:
            raise self._failed[name]
        if not has_frames(episode):
            try:
                self._envs.keep(name)
            except CapexError as error:
                self._failed[name] = error
                raise
        return open_views(episode, record, steps, self._envs)


def left_camera(spec: Spec) -> str:
    """The exterior camera on the left, or the first one there is."""
    exterior = [c for c in spec.cameras if c.kind == "exterior"] or spec.cameras
    return next((c.name for c in exterior if "left" in c.name), exterior[0].name)


def _frames(views: Views, steps: StepArrays, record: EpisodeRecord, count: int) -> list[StripFrame]:
    camera = left_camera(views.spec)
    size = of_width(views.spec.camera(camera), WIDTH_PX)
    turns = [t for t in record.turns if t.waypoints]
    decision: Sequence[int] = steps["decision"]
    tips: dict[int, dict[str, Array]] = {}
    frames = []
    ticks = strip_ticks(len(steps["states"]) - 1, count)
    for tick, images in zip(ticks, views.pictures({camera: size}, ticks), strict=True):
        plan = int(decision[min(tick, len(decision) - 1)]) if len(decision) else -1
        turn = turns[plan] if 0 <= plan < len(turns) else None
        if turn is not None and plan not in tips:
            tips[plan] = tips_at(views, int(steps["plan_starts"][plan]))
        model = views.camera_model(camera, tick, size)
        drawn = () if turn is None else project_plan(turn, tips[plan], model)
        seconds = tick / views.spec.control_hz
        frames.append(StripFrame(_jpeg(images[camera]), tick, seconds, turn, drawn, size))
    return frames


def _jpeg(image: Image) -> bytes:
    out = io.BytesIO()
    Picture.fromarray(image).save(out, format="JPEG", quality=JPEG_QUALITY, optimize=True)
    return out.getvalue()


def _seen(episode: Summary, record: EpisodeRecord, count: int, why: str) -> Strip:
    """What the model saw at its decisions, from the exchange log."""
    shown: dict[str, int] = {}  # sha256 -> decision, in order
    ends = np.cumsum([t.calls for t in record.turns])
    replies = 0
    try:
        for line in read_log(episode.path / LOG):
            for label, sha in _pictures(line):
                if "left" in label or not any("left" in name for name, _ in _pictures(line)):
                    shown.setdefault(sha, int(np.searchsorted(ends, replies, side="right")))
                    break
            replies += line.replied
        ticks = strip_ticks(len(shown) - 1, count) if shown else []
        chosen = [list(shown.items())[k] for k in ticks]
        known = [(sha, record.turns[d]) for sha, d in chosen if d < len(record.turns)]
        frames = [_kept(episode.path, sha, turn) for sha, turn in known]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DamagedFile):
        frames = []
    if not frames:
        return Strip((), f"{why}, and no image of it was kept.")
    return Strip(tuple(frames), f"{why}: these are images that the model saw, without the plan.")


def _pictures(line: Exchange) -> list[tuple[str, str]]:
    """Label and hash of the present scene's images: the last ones of a request's first message."""
    messages = (line.request or {}).get("messages", ())
    parts = messages[0].get("user", ()) if messages else ()
    scene = max((i for i, p in enumerate(parts) if "text" in p), default=0)
    return [(p["picture"], p["sha256"]) for p in parts[scene:] if "picture" in p]


def _kept(folder: Path, sha: str, turn: Turn) -> StripFrame:
    path = pictures.find(folder / pictures.IMAGES, str(sha))
    with picture(read_bytes(path)) as kept:
        size = (WIDTH_PX, max(1, round(WIDTH_PX * kept.height / kept.width)))
        image = np.asarray(kept.convert("RGB").resize(size))
    return StripFrame(_jpeg(image), turn.step, 0.0, turn, (), size)


def write_frames(strip: Strip, out: Path) -> Path:
    """The frames of a strip beside each other in a file."""
    images = []
    for frame in strip.frames:
        with Picture.open(io.BytesIO(frame.jpeg)) as image:
            images.append(np.asarray(image.convert("RGB")))
    height = min(image.shape[0] for image in images)
    Picture.fromarray(np.concatenate([image[:height] for image in images], axis=1)).save(out)
    return out
