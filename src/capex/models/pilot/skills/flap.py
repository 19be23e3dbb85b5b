"""Close a flap, a door hinged along its lower edge: lift its bar from below along the arc, push it
shut.
"""

from __future__ import annotations

import math

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.eyes import Colour, Pixel, Shape, View
from capex.models.pilot.ground import Answers, Asking, Found, Intent, Move
from capex.models.pilot.scene import Scene, line, path
from capex.models.pilot.skills.stand import line_up
from capex.plan import Orientation, at
from capex.pose import Array, tilted_forward

STAND_M = 0.70  # from the hinge's front to the robot's mount


FINGERTIP_M = 0.0125


FLAP_M = 0.202  # from a toaster oven's hinge to its bar


BAR_OFF_M = 0.037  # the bar's middle in front of the flap's middle


def shut_fingers(scene: Scene, orientation: Orientation) -> list[Move]:
    return [Move(at(scene.tip, orientation, "close"))] if scene.page.opening_m > 0.01 else []


def close_flap(scene: Scene) -> Asking:
    bars = {v.camera: b for v in scene.views.values() if (b := _bar(v)) is not None}
    asks = []
    if bars:
        asks.append(
            scene.feature(
                "bar",
                {c: [b.along(f) for f in (-0.85, -0.4, 0.0, 0.4, 0.85)] for c, b in bars.items()},
                0.66,
            )
        )
    stand = {c: s for c, b in bars.items() if (s := _below(scene.views[c], b))}
    if stand:
        asks.append(scene.feature("stand", stand, 0.60))
    answers = (yield asks) if asks else {}
    handle, into = _bar_pose(answers)
    if handle is None or into is None:
        return draw_back(scene, "I do not see the bar of the door")
    front = _front(answers, handle, into)
    angle = _flap_angle(handle, into, front)
    along, normal = _flap_directions(angle, into)
    hinge = handle - FLAP_M * along - BAR_OFF_M * normal
    if drive := line_up(scene, hinge - STAND_M * into, into, 0.07):
        return Intent("Drive in front of the appliance and face it.", drive=drive)
    heading = math.atan2(into[1], into[0])
    orientation = tilted_forward(0.0, heading)
    orientation = (round(orientation[0]), round(orientation[1]), round(orientation[2]))

    def contact(opening: float, gap: float) -> Array:
        along, normal = _flap_directions(opening, into)
        extent = FINGERTIP_M * math.cos(opening) + 0.011 * math.sin(opening)
        point = hinge + FLAP_M * along + (BAR_OFF_M + 0.007 + extent + gap) * normal
        return np.asarray(point + 0.015 * math.sin(opening) * into)

    tip = scene.tip
    begin = contact(angle, 0.03)
    touching = float(np.linalg.norm(tip - contact(angle, 0.0))) < 0.045
    start = tip
    moves = shut_fingers(scene, orientation)
    if (
        _felt(scene)
        and angle < 0.75
        and float(np.linalg.norm((tip - contact(angle, 0.0))[:2])) < 0.10
        and abs(tip[1] - begin[1]) < 0.12
    ):
        # The fingers are caught between bar and glass: no higher, straight on.
        gap = float((hinge - tip) @ into)
        if _straight(scene) % 2 == 0:
            goal = tip + max(gap + 0.01, 0.04) * into
            return Intent(
                "The bar stops the fingers: push straight on at this height.",
                tuple(line(tip, goal, orientation, touch=True)),
            )
        low = tip - 0.10 * into - np.array([0.0, 0.0, 0.05])
        return Intent(
            "That did not move it: back off below the bar and come again.",
            tuple(line(tip, low, orientation)),
        )
    if not touching:
        back = np.array([min(tip[0], begin[0] - 0.10), tip[1], tip[2]])
        low = np.array([back[0], begin[1], begin[2]])
        way = [p for p in (back, low) if float(np.linalg.norm(tip - begin)) > 0.08] + [begin]
        moves += path(tip, way, orientation)
        start = begin
    steps = max(1, math.ceil(angle * 0.2 / 0.05))
    arc = [contact(angle * (1 - (k + 1) / steps), -0.02) for k in range(steps)]
    for point in [*arc, contact(0.0, -0.045 - 0.01 * stalls(scene))]:
        moves += line(start, point, orientation, touch=True)
        start = point
    return Intent(
        "Lift the door by its bar from below and push it shut along its arc.", tuple(moves)
    )


def _bar(view: View) -> Shape | None:
    """The steel bar of a flap: long, thin, level enough, next to dark glass."""
    glass = view.like(Colour(27, 0.52, 6, 0.09, 0.05, 0.42)) | view.grey(0.12, 0.04, 0.36)
    best: tuple[float, Shape] | None = None
    for bar in looks.bars(view, looks.steel(view) & ~looks.hand_zone(view)):
        if abs(bar.axes[2][0]) < 0.5 or bar.centre[1] > 0.72 * view.height:
            continue
        rows = np.clip(np.concatenate([bar.rows - 8, bar.rows - 14]), 0, view.height - 1)
        dark = float(glass[rows, np.concatenate([bar.columns, bar.columns])].mean())
        score = bar.axes[0] * (0.2 + dark)
        if best is None or score > best[0]:
            best = (score, bar)
    return best[1] if best else None


def _below(view: View, bar: Shape) -> list[Pixel]:
    """Pixels of the wooden stand under the appliance: down from the bar to the first wood."""
    wood = view.like(looks.WOOD)
    found: list[Pixel] = []
    for fraction in (-0.5, 0.0, 0.5):
        u, v = bar.along(fraction)
        column = wood[int(v) + 3 : int(v) + 3 + view.height // 4, int(u)]
        runs = np.flatnonzero(column)
        if runs.size > 8 and column[runs[0] : runs[0] + 8].all():
            found.append((u, int(v) + 3 + int(runs[0]) + 6.5))
    return found


def _bar_pose(answers: Answers) -> tuple[Array | None, Array | None]:
    """The bar's middle, and the level direction into the appliance, square to the bar."""
    points = [p for p in answers.get("bar", Found()).all() if 0.40 < p[2] < 1.05]
    bar = _on_one_line(points)
    if bar is None:
        found = answers.get("bar", Found())
        middle = found.agreed() if found.agreed() is not None else found.middle("wrist")
        return (None, None) if middle is None else (middle, np.array([1.0, 0.0, 0.0]))
    centre = bar.mean(axis=0)
    along = np.linalg.svd((bar - centre)[:, :2])[2][0]
    into = np.array([along[1], -along[0], 0.0]) * (1.0 if along[1] > 0 else -1.0)
    across = np.array([-into[1], into[0], 0.0])
    ends = (bar - centre) @ across
    return centre + across * (float(ends.min()) + float(ends.max())) / 2, into


def _on_one_line(points: list[Array]) -> Array | None:
    """Those of some points that lie on one level line, the most of them; spots beside a thin bar
    land on what is behind it.
    """
    best: list[Array] = []
    for i, a in enumerate(points):
        for b in points[i + 1 :]:
            way = b - a
            length = float(np.linalg.norm(way))
            if not 0.08 < length < 0.35 or abs(way[2]) > 0.03 or abs(way[0]) > 0.75 * length:
                continue
            d = way / length
            on = [p for p in points if float(np.linalg.norm((p - a) - ((p - a) @ d) * d)) < 0.016]
            if len(on) > len(best) or (
                len(on) == len(best) and np.mean([p[0] for p in on]) < np.mean([p[0] for p in best])
            ):
                best = on
    return np.stack(best) if len(best) >= 3 else None


def _front(answers: Answers, handle: Array, into: Array) -> float | None:
    """How far behind the bar the appliance's front is, from its stand."""
    points = [p for p in answers.get("stand", Found()).all() if p[2] < handle[2] + 0.02]
    gaps = [float((p - handle) @ into) for p in points]
    gaps = [g for g in gaps if -0.02 < g < 0.32]
    return float(np.median(gaps)) if gaps else None


def _flap_angle(handle: Array, into: Array, front: float | None) -> float:
    """The opening: how far the bar stands in front of where it would be when shut."""
    if front is None:
        return 0.8
    options = np.linspace(0.0, 1.5, 151)
    away = FLAP_M * np.sin(options) + BAR_OFF_M * np.cos(options)
    return float(options[int(np.argmin(np.abs(away - front)))])


def _flap_directions(angle: float, into: Array) -> tuple[Array, Array]:
    """Along the flap from hinge to free edge, and its outer normal."""
    up = np.array([0.0, 0.0, 1.0])
    return (
        -math.sin(angle) * into + math.cos(angle) * up,
        -math.cos(angle) * into - math.sin(angle) * up,
    )


def _felt(scene: Scene) -> bool:
    """Whether the last waypoint that ran was stopped by what the fingers felt."""
    told = scene.page.since_base_motion()
    return bool(told) and told[-1].status == "finger contact"


def _straight(scene: Scene) -> int:
    """How many of the last stops in a row came while moving on a level."""
    count = 0
    told = [w for w in scene.page.since_base_motion() if w.target_cm is not None]
    for before, after in zip(reversed(told[:-1]), reversed(told[1:]), strict=True):
        if after.status != "finger contact" or before.target_cm is None or after.target_cm is None:
            break
        count += abs(after.target_cm[2] - before.target_cm[2]) <= 1
    return count


def stalls(scene: Scene) -> int:
    return sum(w.status in ("finger contact", "stalled") for w in scene.page.since_base_motion())


def draw_back(scene: Scene, why: str) -> Intent:
    deferred = [
        w
        for w in (scene.page.acts[-1].waypoints if scene.page.acts else ())
        if w.status == "deferred" and w.target_cm is not None
    ]
    if deferred:
        goals = [np.array(w.target_cm) / 100 for w in deferred]
        return Intent(f"{why}; go on as planned.", tuple(path(scene.tip, goals, "keep")))
    goal = scene.tip + np.array([-0.09, 0.0, 0.0])
    return Intent(f"{why}: draw back and look.", tuple(line(scene.tip, goal, "keep")))
