"""Close a flap, a door hinged along its lower edge: lift its bar from below along the arc, push it
shut.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from capex.pilot import appearance
from capex.pilot.grounding import (
    AHEAD,
    Answers,
    Asking,
    Intent,
    apart,
    apart_level,
    heading,
    left_of,
)
from capex.pilot.scene import BACK, FINGER_END_M, Scene, forward, line, path, push
from capex.pilot.segmentation import Colour, Pixel, Region, View, find
from capex.pilot.skills.base_position import line_up
from capex.plan import WaypointStatus
from capex.pose import Array

STAND_M = 0.70  # from the hinge's front to the robot's mount
FLAP_M = 0.202  # from a toaster oven's hinge to its bar
BAR_OFF_M = 0.037  # the bar's middle in front of the flap's middle
BAR_HALF_M = 0.007  # the bar's own half thickness
BAR_HEIGHTS_M = (0.40, 1.05)  # over the mount: what is located elsewhere is no bar of an appliance
BAR_LENGTHS_M = (0.08, 0.35)  # between two spots of one bar
ANGLE_RAD = 0.8  # assumed where the front is not seen: half open
CAUGHT_RAD = 0.75  # less open than this, the bar is so near to the glass that fingers get caught
STEP_M = 0.05  # of the arc between two waypoints


def close_flap(scene: Scene) -> Asking:
    bars = find(scene.views.values(), _bar)
    spots = {c: b.spots((-0.85, -0.4, 0.0, 0.4, 0.85)) for c, b in bars.items()}
    below = {c: s for c, b in bars.items() if (s := _below(scene.views[c], b))}
    answers = yield [*scene.ask("bar", spots, 0.66), *scene.ask("stand", below, 0.60)]
    handle, into = _bar_pose(answers)
    if handle is None:
        return draw_back(scene, "I do not see the bar of the door")
    angle = _flap_angle(_front(answers, handle, into))
    along, normal = _flap_directions(angle, into)
    hinge = handle - FLAP_M * along - BAR_OFF_M * normal
    if drive := line_up(scene, hinge - STAND_M * into, into, 0.07):
        return Intent("Drive in front of the appliance and face it.", drive=drive)
    orientation = forward(heading(into))

    def contact(opening: float, gap: float) -> Array:
        """Where the tip touches the bar from below at an opening, backed off by a gap."""
        along, normal = _flap_directions(opening, into)
        extent = FINGER_END_M * math.cos(opening) + 0.011 * math.sin(opening)
        point = hinge + FLAP_M * along + (BAR_OFF_M + BAR_HALF_M + extent + gap) * normal
        return np.asarray(point + 0.015 * math.sin(opening) * into)

    tip, begin, touch = scene.tip, contact(angle, 0.03), contact(angle, 0.0)
    near = apart_level(tip, touch) < 0.10 and abs(tip[1] - begin[1]) < 0.12
    if _felt(scene) and angle < CAUGHT_RAD and near:
        # The fingers are caught between bar and glass: no higher, straight on.
        if _straight(scene) % 2 == 0:
            goal = tip + max(float((hinge - tip) @ into) + 0.01, 0.04) * into
            why = "The bar stops the fingers: push straight on at this height."
            return Intent(why, line(tip, goal, orientation, touch=True))
        low = tip - 0.10 * into - np.array([0.0, 0.0, 0.05])
        why = "That did not move it: back off below the bar and come again."
        return Intent(why, line(tip, low, orientation))
    moves = scene.shut(orientation)
    start = tip
    if apart(tip, touch) >= 0.045:
        back = np.array([min(tip[0], begin[0] - 0.10), tip[1], tip[2]])
        low = np.array([back[0], begin[1], begin[2]])
        way = [back, low, begin] if apart(tip, begin) > 0.08 else [begin]
        moves += path(tip, way, orientation)
        start = begin
    steps = max(1, math.ceil(angle * 0.2 / STEP_M))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.02) for k in range(steps)]
    end = contact(0.0, -0.045 - 0.01 * stalls(scene))
    why = "Lift the door by its bar from below and push it shut along its arc."
    return Intent(why, [*moves, *push(start, [*arc, end], orientation)])


def _bar(view: View) -> Region | None:
    """The steel bar of a flap: long, thin, level enough, next to dark glass."""
    glass = view.like(Colour(27, 0.52, 6, 0.09, 0.05, 0.42)) | view.grey(0.12, 0.04, 0.36)

    def score(bar: Region) -> float:
        return bar.axes[0] * (0.2 + bar.share_beside(glass, -8, -14))

    bars = appearance.bars(view, appearance.steel(view) & ~appearance.hand_zone(view))
    level = [b for b in bars if abs(b.axes[2][0]) >= 0.5 and b.centre[1] <= 0.72 * view.height]
    return max(level, key=score, default=None)


def _below(view: View, bar: Region) -> list[Pixel]:
    """Pixels of the wooden stand under the appliance: down from the bar to the first wood."""
    wood = view.like(appearance.WOOD)
    pixels: list[Pixel] = []
    for u, v in bar.spots((-0.5, 0.0, 0.5)):
        column = wood[int(v) + 3 : int(v) + 3 + view.height // 4, int(u)]
        runs = np.flatnonzero(column)
        if runs.size > 8 and column[runs[0] : runs[0] + 8].all():
            pixels.append((u, int(v) + 3 + int(runs[0]) + 6.5))
    return pixels


def _bar_pose(answers: Answers) -> tuple[Array | None, Array]:
    """The bar's middle, and the level direction into the appliance, square to the bar."""
    low, high = BAR_HEIGHTS_M
    bar = _on_one_line([p for p in answers["bar"].all() if low < p[2] < high])
    if bar is None:
        return answers["bar"].best(), AHEAD
    centre = bar.mean(axis=0)
    along = np.linalg.svd((bar - centre)[:, :2])[2][0]
    into = np.array([along[1], -along[0], 0.0]) * (1.0 if along[1] > 0 else -1.0)
    across = left_of(into)
    ends = (bar - centre) @ across
    return centre + across * (float(ends.min()) + float(ends.max())) / 2, into


def _on_one_line(points: list[Array]) -> Array | None:
    """Those of some points that lie on one level line, the most of them; spots beside a thin bar
    land on what is behind it.
    """
    shortest, longest = BAR_LENGTHS_M
    best: list[Array] = []
    for i, a in enumerate(points):
        for b in points[i + 1 :]:
            way = b - a
            length = float(np.linalg.norm(way))
            level = abs(way[2]) <= 0.03 and abs(way[0]) <= 0.75 * length
            if not shortest < length < longest or not level:
                continue
            d = way / length
            on = [p for p in points if apart(p - a, ((p - a) @ d) * d) < 0.016]
            nearer = len(on) == len(best) and _depth(on) < _depth(best)
            if len(on) > len(best) or nearer:
                best = on
    return np.stack(best) if len(best) >= 3 else None


def _depth(points: list[Array]) -> float:
    return float(np.mean([p[0] for p in points]))


def _front(answers: Answers, handle: Array, into: Array) -> float | None:
    """How far behind the bar the appliance's front is, from its stand."""
    points = [p for p in answers["stand"].all() if p[2] < handle[2] + 0.02]
    gaps = [float((p - handle) @ into) for p in points]
    gaps = [g for g in gaps if -0.02 < g < 0.32]
    return float(np.median(gaps)) if gaps else None


def _flap_angle(front: float | None) -> float:
    """The opening: how far the bar stands in front of where it would be when shut."""
    if front is None:
        return ANGLE_RAD
    options = np.linspace(0.0, 1.5, 151)
    away = FLAP_M * np.sin(options) + BAR_OFF_M * np.cos(options)
    return float(options[int(np.argmin(np.abs(away - front)))])


def _flap_directions(angle: float, into: Array) -> tuple[Array, Array]:
    """Along the flap from hinge to free edge, and its outer normal."""
    up, c, s = np.array([0.0, 0.0, 1.0]), math.cos(angle), math.sin(angle)
    return -s * into + c * up, -c * into - s * up


def _felt(scene: Scene) -> bool:
    """Whether the last waypoint that ran was stopped by what the fingers felt."""
    executed = scene.page.since_base_motion()
    return bool(executed) and executed[-1].status == WaypointStatus.FINGER_CONTACT


def _straight(scene: Scene) -> int:
    """How many of the last stops in a row came while moving on a level."""
    count = 0
    reported = scene.page.since_base_motion()
    sent = [(w.status, w.target_cm[2]) for w in reported if w.target_cm is not None]
    for (_, before_cm), (status, after_cm) in reversed(list(itertools.pairwise(sent))):
        if status != WaypointStatus.FINGER_CONTACT:
            break
        count += abs(after_cm - before_cm) <= 1
    return count


def stalls(scene: Scene) -> int:
    stopped = (WaypointStatus.FINGER_CONTACT, WaypointStatus.STALLED)
    return sum(w.status in stopped for w in scene.page.since_base_motion())


def draw_back(scene: Scene, why: str) -> Intent:
    """Not seen: go on with what was deferred, else draw the hand back."""
    if deferred := scene.page.deferred_m():
        return Intent(f"{why}; go on as planned.", path(scene.tip, deferred))
    return Intent(f"{why}: draw back and look.", line(scene.tip, scene.tip + BACK))
