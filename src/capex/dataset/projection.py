"""A plan in a camera's image: where its waypoints lie, and what became of each.

Waypoints are projected with the camera's own intrinsics and pose, so an uncalibrated camera shows
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from capex.dataset.views import Views
from capex.method.record import Turn, WaypointRecord
from capex.pose import Array
from capex.worlds import CameraModel

Point = tuple[float, float]  # pixels, right and down
Tips = Mapping[str, Array]  # by arm, base frame, metres
Fate = Literal["done", "stopped", "deferred", "skipped"]
# Every other status stopped the plan.
FATES: dict[str, Fate] = {
    **dict.fromkeys(("reached", "gripper", "base", "terminal"), "done"),
    "deferred": "deferred",
    **dict.fromkeys(("not executed", "out of steps", "ended"), "skipped"),
}


def fate(status: str) -> Fate:
    """What became of a waypoint, in one of four words."""
    return FATES.get(status, "stopped")


@dataclass(frozen=True)
class Mark:
    """A waypoint in the image; `stopped_at` is where the tip ended when it was not reached."""

    place: int  # k, from 1
    at: Point
    fate: Fate
    stopped_at: Point | None


@dataclass(frozen=True)
class Drawn:
    """One arm's part of a plan in the image: the path from the tip, a mark on each waypoint."""

    path: tuple[Point, ...]
    marks: tuple[Mark, ...]


def tips_at(views: Views, tick: int) -> dict[str, Array]:
    """Where each arm's tip was at a tick."""
    return {name: tip.position_m for name, tip in views.tips(tick).items()}


def project_plan(turn: Turn, tips: Tips, camera: CameraModel | None) -> tuple[Drawn, ...]:
    """The plan in the image, arm by arm, from where the tips were when it began."""
    if camera is None:
        return ()
    plan = []
    for arm, tip in tips.items():
        marks = []
        for place, row in enumerate(turn.waypoints, start=1):
            at = _project(camera, row.clamped_m.get(arm))
            if at is not None:
                marks.append(Mark(place, at, fate(row.status), _stopped_at(camera, row, arm)))
        begin = _project(camera, tip)
        if marks:
            plan.append(Drawn((*([begin] if begin else []), *(m.at for m in marks)), tuple(marks)))
    return tuple(plan)


def _stopped_at(camera: CameraModel, row: WaypointRecord, arm: str) -> Point | None:
    tip = row.tips.get(arm)
    return (
        _project(camera, None if tip is None else tip.position_m)
        if fate(row.status) == "stopped"
        else None
    )


def _project(camera: CameraModel, point_m: Sequence[float] | Array | None) -> Point | None:
    if point_m is None:
        return None
    u, v, depth = camera.project(np.asarray(point_m, dtype=np.float64))
    return (round(u, 1), round(v, 1)) if depth > 0 else None
