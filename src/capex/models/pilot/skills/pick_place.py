"""Pick and place: hover over the thing, look through the wrist camera, grasp across its long side,
carry, lower, let go, retreat.
"""

from __future__ import annotations

import math
import re

import numpy as np

from capex.models.pilot import looks, tableware
from capex.models.pilot.eyes import Ellipse, Shape, View
from capex.models.pilot.ground import Answers, Asking, Feature, Found, Intent, Move
from capex.models.pilot.scene import Scene, down, line, path, spots_on
from capex.models.pilot.skills.support import (
    WORKTOP_M,
    dish_feature,
    is_dish,
    put_where,
    support_features,
)
from capex.plan import Orientation, at, ceiling, raised
from capex.pose import Array

LIFT = re.compile(r"(?:pick up|lift) the ([^.]+?)\.?$", re.I)
PUT = re.compile(r"put the (.+?) on the (.+?)\.?$", re.I)
PICK = re.compile(
    r"pick (?:up )?the (.+?)(?: from the (.+?))? and (?:place|put) it (?:in|on|onto|into|under) the"
    r" (.+?)\.?$",
    re.I,
)
HOVER_M = 0.10
LIFT_M = 0.14
CARRY_M = 0.15
CLEAR_M = 0.27
ALIGNED_M = 0.022
FINGERTIP_M = 0.014  # the fingers end this much below the tip
TALL = ("slice", "waffle")  # stands upright: taken near its top


def pick_place(scene: Scene) -> Asking:
    """One decision of a pick and place task, from whatever state the page and the views show."""
    item, source, place = wanted(scene.page.instruction)
    dishes = (
        {v.camera: d for v in scene.exterior() if (d := tableware.dish(v, place)) is not None}
        if is_dish(place)
        else {}
    )
    asks = [
        f for f in (dish_feature(scene, dishes), *support_features(scene, place)) if f is not None
    ]
    if scene.page.word == "holding":
        if not place:
            return Intent(
                f"I hold the {item}: lift it.", tuple(line(scene.tip, raised(scene.tip, LIFT_M)))
            )
        answers = (yield asks) if asks else {}
        return _carry(scene, item, place, put_where(scene, place, answers))
    seen = {
        v.camera: s for v in scene.exterior() if (s := _item(v, item, source, dishes)) is not None
    }
    asks += (
        [scene.feature("item", {c: spots_on(s, (0.0, -0.6, 0.6)) for c, s in seen.items()})]
        if seen
        else []
    )
    wrist = _wrist_item(scene, item)
    if wrist is not None and scene.brief.locate:
        asks += _wrist_features(scene, wrist)
    answers = (yield asks) if asks else {}
    centre = put_where(scene, place, answers)
    thing = answers["item"].agreed() if "item" in answers else None
    if (
        thing is not None
        and _in_place(scene, thing, centre)
        and float(np.linalg.norm(scene.tip - thing)) < CLEAR_M
    ):
        return Intent(f"The {item} lies in place; back off.", tuple(_retreat(scene.tip)))
    return _grasp(scene, item, thing, wrist, answers)


def wanted(instruction: str) -> tuple[str, str, str]:
    """What to take, from where, and where to put it; the last two may be empty."""
    if words := PICK.search(instruction):
        return words[1], words[2] or "", words[3]
    if words := PUT.search(instruction):
        return words[1], "", words[2]
    words = LIFT.search(instruction)
    return (words[1] if words else ""), "", ""


def _item(view: View, item: str, source: str, dishes: dict[str, Ellipse]) -> Shape | None:
    """The region that is most probably the thing: of its colour, not the finger pads, rather on
    what it lies on.
    """
    found = looks.coloured(view, item)
    pads = looks.pads(view)
    if pads is not None:
        own = set(zip(pads.rows.tolist(), pads.columns.tolist(), strict=True))
        found = [
            s
            for s in found
            if sum(p in own for p in zip(s.rows.tolist(), s.columns.tolist(), strict=True))
            < 0.4 * s.area
        ]
    if source == "plate":
        plates = tableware.plates(view)
        inside = [s for s in found if any(p.contains(s.centre, 1.25) for p in plates)]
        found = inside or found
    return found[0] if found else None


def _wrist_item(scene: Scene, item: str) -> Shape | None:
    """The thing in the wrist view, when the hand points down."""
    if "wrist" not in scene.views or not scene.points_down():
        return None
    found = looks.coloured(scene.views["wrist"], item, smallest=0.0012, largest=0.25)
    return found[0] if found else None


def _wrist_features(scene: Scene, shape: Shape) -> list[Feature]:
    """The thing's middle and ends from the wrist view, and what it lies on beside it."""
    view = scene.views["wrist"]
    u, v = shape.centre
    _, across, (du, dv) = shape.axes
    beside = [
        (u - k * (across * 1.25 + 14) * dv, v + k * (across * 1.25 + 14) * du) for k in (-1, 1)
    ]
    beside = [p for p in beside if 2 <= p[0] < view.width - 2 and 2 <= p[1] < 0.68 * view.height]
    features = [scene.feature("wrist item", {"wrist": spots_on(shape, (0.0, -0.75, 0.75))})]
    return features + ([scene.feature("wrist floor", {"wrist": beside})] if beside else [])


def _in_place(scene: Scene, thing: Array, centre: Array | None) -> bool:
    """Whether the thing was let go and lies in the dish."""
    if not _let_go(scene):
        return False
    if wanted(scene.page.instruction)[2] == "counter":
        return bool(thing[2] > WORKTOP_M - 0.03)
    return centre is not None and float(np.linalg.norm((thing - centre)[:2])) < 0.09


def _let_go(scene: Scene) -> bool:
    """Whether the page shows a release that ran."""
    return any(
        w.gripper in ("release", "open") and w.target_cm is not None for w in scene.page.told
    )


def _empty_closes(scene: Scene) -> int:
    """How many grasps on the page closed on nothing."""
    return sum(
        w.gripper in ("close", "reclose")
        and "finger contact" not in w.report.partition(": opening")[2]
        for w in scene.page.told
    )


def _grasp(
    scene: Scene, item: str, thing: Array | None, wrist: Shape | None, answers: Answers
) -> Intent:
    """Go over the thing, then down onto it, close and lift; how much of it depends on where the
    hand is already.
    """
    tip = scene.tip
    close_up = answers.get("wrist item", Found()).middle("wrist")
    if (
        close_up is not None
        and thing is not None
        and float(np.linalg.norm((close_up - thing)[:2])) > 0.09
    ):
        close_up = None  # something else of that colour
    if close_up is None and thing is None:
        return _look_around(scene, item)
    point = close_up if close_up is not None else thing
    assert point is not None
    orientation: Orientation = "keep" if scene.points_down() else "down"
    if (
        wrist is not None
        and (wrist.elongation > 1.3 or "cube" in item)
        and (close_up is not None or not scene.brief.locate)
    ):
        orientation = down(_long_side(scene, wrist, answers) + 0.35 * (_empty_closes(scene) // 2))
    elif _empty_closes(scene):
        orientation = down(0.6 * _empty_closes(scene))
    grasp = np.array([point[0], point[1], _grasp_height(scene, item, point, answers)])
    hover = raised(grasp, HOVER_M)
    lateral = float(np.linalg.norm((tip - grasp)[:2]))
    opening = [Move(at(tip, "keep", "open"))] if scene.page.opening_m < 0.07 else []
    if close_up is None and lateral > ALIGNED_M and tip[2] > grasp[2] + 0.03:
        # Seen from outside only: get over it first and look through the wrist camera.
        way = _over(tip, hover)
        return Intent(
            f"Go over the {item} and look from above before grasping.",
            (*opening, *path(tip, way, orientation)),
        )
    lift = line(grasp, raised(grasp, LIFT_M))
    if lateral <= ALIGNED_M and tip[2] <= grasp[2] + 0.012:
        return Intent(
            f"The fingers are around the {item}: close and lift.",
            (Move(at(grasp, "keep", "close"), True), *lift),
        )
    if lateral <= ALIGNED_M:
        descent = line(tip, grasp, orientation, "close", True)
    else:
        over = [hover] if lateral < 0.15 and tip[2] >= hover[2] - 0.03 else _over(tip, hover)
        descent = [*path(tip, over, orientation), *line(hover, grasp, "keep", "close", True)]
    return Intent(
        f"Descend onto the {item} across its long side, close, lift.", (*opening, *descent, *lift)
    )


def _long_side(scene: Scene, wrist: Shape, answers: Answers) -> float:
    """The yaw of the thing's long axis: from its located ends, or as it lies in the wrist view,
    whose upper edge is the hand's front.
    """
    ends = answers.get("wrist item", Found()).points.get("wrist", ())[1:]
    if (
        wrist.elongation >= 1.3
        and len(ends) == 2
        and ends[0] is not None
        and ends[1] is not None
        and float(np.linalg.norm((ends[1] - ends[0])[:2])) > 0.02
    ):
        along = ends[1] - ends[0]
        return math.atan2(along[1], along[0])
    du, dv = wrist.edge if wrist.elongation < 1.3 else wrist.axes[2]
    hand = math.atan2(scene.page.rotation[1, 0], scene.page.rotation[0, 0])
    return hand + math.atan2(-du, -dv)


def _over(tip: Array, hover: Array) -> list[Array]:
    """Up first where needed, then over: never sweep at the height of things."""
    height = max(tip[2], min(hover[2] + 0.02, ceiling(tip)))
    up = np.array([tip[0], tip[1], height])
    return [*([up] if height > tip[2] + 0.01 else []), hover]


def _grasp_height(scene: Scene, item: str, point: Array, answers: Answers) -> float:
    """Where the tip must be: around a lying thing's middle, near the top of a standing one; below
    what was tried in vain.
    """
    learned = [
        w.offset_cm[2] / 100
        for w in scene.brief.references_with("close")
        if w.offset_cm is not None and max(map(abs, w.offset_cm)) <= 6
    ]
    floor = answers.get("wrist floor", Found()).all("wrist")
    support = float(np.median([p[2] for p in floor])) if floor else None
    top = float(point[2])
    if any(word in item for word in TALL):
        depth = -float(np.median(learned)) if learned else 0.020
        return top - min(depth + 0.006 * _empty_closes(scene), 0.035)
    depth = (
        -float(np.median(learned))
        if learned
        else 0.5 * (top - support)
        if support is not None and top - support < 0.09
        else 0.025
    )
    lowest = support + FINGERTIP_M if support is not None and support < top else top - 0.05
    return max(top - depth - 0.005 * _empty_closes(scene), lowest)


def _carry(scene: Scene, item: str, place: str, centre: Array | None) -> Intent:
    """Lift, bring it over the dish, lower it, let go and retreat."""
    tip = scene.tip
    if centre is None:
        return Intent(
            f"I hold the {item} but do not see the {place}: move it aside and look.",
            tuple(_aside(scene)),
        )
    tall = any(word in item for word in TALL)
    # How far the held thing reaches below the tip.
    hang = 0.085 if tall else 0.022 if "cube" in item else 0.035
    learned = [
        w.offset_cm[2] / 100
        for w in scene.brief.references_with("release")
        if w.offset_cm is not None and max(map(abs, w.offset_cm[:2])) <= 9
    ]
    above = (
        float(np.median(learned))
        if learned and not tall
        else hang + (0.006 if "cube" in item else 0.015)
    )
    target = np.array([centre[0], centre[1], centre[2] + max(above, hang)])
    over = raised(target, CARRY_M - 0.05)
    lateral = float(np.linalg.norm((tip - target)[:2]))
    why = f"Carry the {item} over the {place}, lower it, let go, retreat."
    if lateral < 0.03:
        return Intent(why, (*line(tip, target, "keep", "release"), *_retreat(target)))
    up = np.array([tip[0], tip[1], max(tip[2], min(over[2], ceiling(tip)))])
    way = [*([up] if up[2] > tip[2] + 0.015 else []), over]
    return Intent(why, (*path(tip, way), *line(over, target, "keep", "release"), *_retreat(target)))


def _retreat(tip: Array) -> list[Move]:
    """Up, then back towards the robot: well away from what was let go."""
    up = raised(tip, 0.12)
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, 0.0])
    back[2] = min(up[2] + 0.12, ceiling(back))
    return path(tip, [up, back])


def _look_around(scene: Scene, item: str) -> Intent:
    """Nothing seen: the hand may be in the way."""
    return Intent(
        f"I do not see the {item}: move the hand out of the way and look again.",
        tuple(_aside(scene)),
    )


def _aside(scene: Scene) -> list[Move]:
    """Out of the line of sight: up first, then back, then across, each time somewhere else than the
    page says was tried.
    """
    tip = scene.tip
    up = raised(tip, 0.08)
    back = np.array([max(0.30, up[0] - 0.10), 0.6 * up[1], up[2]])
    across = np.array([0.36, -0.10 if tip[1] > 0 else 0.10, min(0.68, ceiling(back))])
    home = np.array([0.36, 0.0, 0.68])
    tried = [np.array(w.target_cm) / 100 for w in scene.page.told[-6:] if w.target_cm is not None]
    for goal in (up, back, across, home):
        if float(np.linalg.norm(goal - tip)) > 0.02 and all(
            float(np.linalg.norm(goal - t)) > 0.02 for t in tried
        ):
            return path(tip, [goal], "keep" if scene.points_down() else "down")
    return path(
        tip,
        [home if float(np.linalg.norm(home - tip)) > 0.05 else across],
        "keep" if scene.points_down() else "down",
    )
