"""Pick and place: hover over the thing, look through the wrist camera, grasp across its long side,
carry, lower, let go, retreat.
"""

from __future__ import annotations

import math
import re

import numpy as np

from capex.pilot import appearance, table_objects
from capex.pilot.grounding import Answers, Asking, Drive, Feature, Intent, Move, apart, apart_level
from capex.pilot.scene import Scene, down, line, path
from capex.pilot.segmentation import Region, View, find
from capex.pilot.skills import support
from capex.pilot.table_objects import BLOCK, kind
from capex.plan import Orientation, at
from capex.pose import Array

HOVER_M = 0.10  # over the grasp: the wrist view shows the thing whole, fingers clear of it
LIFT_M = 0.14  # clears a plate's rim, a sink's edge, a drawer's front
CARRY_M = 0.15  # over a place: a thing that hangs 5 cm below the fingers clears it by 10 cm
CLEAR_M = 0.27  # a task wants the hand over 25 cm away from what it let go
ALIGNED_M = 0.022  # open fingers have about 2 cm to spare on each side of a thing
TIGHT_M = 0.009  # and 7 mm of a can or a cup
LOW_M, OVER_M = 0.025, 0.03  # lower than where it looked, and hardly beside: on the way down
BESIDE_M, ROUND_BESIDE_M = 0.04, 0.08  # what is held hides more of the wrist view where it is wide
SAME_M = 0.09  # farther apart, what the wrist sees is another thing of that colour
FINGERTIP_M = 0.014  # the fingers end this much below the tip
LONG = 1.3  # longer than this many widths, a thing has a long side to be grasped across
ASIDE_M = (0.20, 0.31, 0.14)  # before the mounts of two arms, beside what they work on
TALL = ("slice", "waffle")  # stands upright: taken near its top


def pick_place(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of a pick and place task, from whatever state the page and the views show."""
    named = words.groupdict()
    item, source, place = (named.get(key) or "" for key in ("item", "source", "place"))
    is_dish = support.is_dish(place)
    dishes = find(scene.exterior(), lambda v: table_objects.dish(v, place)) if is_dish else {}
    asks = [*support.dish_feature(scene, dishes), *support.support_features(scene, place)]
    if scene.page.holding:
        if not place:
            return Intent(
                f"I hold the {item}: lift it.", line(scene.tip, scene.raised(scene.tip, LIFT_M))
            )
        answers = yield asks
        where = support.put_where(scene, place, answers)
        drive = support.nearer(scene, place, answers) if where is None else None
        if drive is not None:
            return _approach(scene, item, place, drive)
        return carry(scene, item, place, where)
    seen = find(scene.exterior(), lambda v: _item(v, item, source))
    asks += scene.ask("item", {c: s.spots((0.0, -0.6, 0.6)) for c, s in seen.items()})
    wrist = wrist_item(scene, item)
    if wrist is not None and scene.brief.locate:
        asks += wrist_features(scene, wrist)
    answers = yield asks
    centre = support.put_where(scene, place, answers)
    thing = answers["item"].agreed()
    if thing is not None and scene.page.released and apart(scene.tip, thing) < CLEAR_M:
        on_worktop = place == "counter" and bool(thing[2] > support.WORKTOP_M - 0.03)
        in_dish = place != "counter" and centre is not None and apart_level(thing, centre) < 0.09
        if on_worktop or in_dish:
            return Intent(f"The {item} lies in place; back off.", retreat(scene, scene.tip))
    return take(scene, item, thing, wrist, answers)


def _item(view: View, item: str, source: str) -> Region | None:
    """The region that is most probably the thing: of its colour, not the finger pads, rather on
    what it lies on.
    """
    candidates = appearance.coloured(view, item)
    if (pads := appearance.pads(view)) is not None:
        own = pads.pixels()
        candidates = [s for s in candidates if len(own & s.pixels()) < 0.4 * s.area]
    if source == "plate":
        plates = table_objects.plates(view)
        inside = [s for s in candidates if any(p.contains(s.centre, 1.25) for p in plates)]
        candidates = inside or candidates
    return candidates[0] if candidates else None


def wrist_item(scene: Scene, item: str) -> Region | None:
    """The thing in the wrist view, when the hand points down."""
    view = scene.wrist_view()
    largest = 0.4 if scene.brief.by_eye else 0.25  # a can from near above fills a third of the view
    candidates = appearance.coloured(view, item, smallest=0.0012, largest=largest) if view else []
    return candidates[0] if candidates else None


def wrist_features(scene: Scene, thing: Region) -> list[Feature]:
    """The thing's middle and ends from the wrist view, and what it lies on beside it."""
    view = scene.views["wrist"]
    u, v = thing.centre
    _, across, (du, dv) = thing.axes
    off = across * 1.25 + 14
    beside = [(u - k * off * dv, v + k * off * du) for k in (-1, 1)]
    beside = [p for p in beside if 2 <= p[0] < view.width - 2 and 2 <= p[1] < 0.68 * view.height]
    features = scene.ask("wrist item", {"wrist": thing.spots((0.0, -0.75, 0.75))})
    return features + scene.ask("wrist floor", {"wrist": beside} if beside else {})


def take(
    scene: Scene, item: str, thing: Array | None, wrist: Region | None, answers: Answers
) -> Intent:
    """Go over the thing, then down onto it, close and lift; how much of it depends on where the
    hand is already.
    """
    tip, misses = scene.tip, scene.page.empty_closes
    close_up = answers["wrist item"].middle("wrist")
    if close_up is not None and thing is not None and apart_level(close_up, thing) > SAME_M:
        close_up = None
    point = close_up if close_up is not None else thing
    if point is None:
        why = f"I do not see the {item}: move the hand out of the way and look again."
        return Intent(why, _aside(scene))
    orientation = scene.downwards()
    # A rig's wrist camera may have no depth: how a thing lies is seen all the same.
    sure = close_up is not None or not scene.brief.locate or scene.brief.done
    if kind(item).round:
        pass
    elif wrist is not None and (wrist.elongation > LONG or _is_cube(item)) and sure:
        orientation = down(
            _long_side(scene, wrist, answers, "block" in item) + 0.35 * (misses // 2)
        )
    elif misses:
        orientation = down(0.6 * misses)
    grasp = np.array([point[0], point[1], _grasp_height(scene, item, point, answers)])
    hover = scene.raised(grasp, HOVER_M)
    lateral = apart_level(tip, grasp)
    going_down = scene.brief.by_eye and tip[2] < hover[2] - LOW_M and lateral < OVER_M
    if going_down:  # so near, the palm hides a part of it: trust the look from higher up
        grasp[:2], lateral = tip[:2], 0.0
    high = scene.brief.by_eye and tip[2] > hover[2] + 0.03
    outside = close_up is None and scene.biases.looks
    if outside and (lateral > ALIGNED_M or high) and tip[2] > grasp[2] + 0.03:
        # Seen from outside only: get over it first and look through the wrist camera.
        why = f"Go over the {item} and look from above before grasping."
        return Intent(why, [*scene.opened(), *path(tip, _over(scene, hover), orientation)])
    if scene.brief.by_eye and kind(item).round and lateral > TIGHT_M and tip[2] > grasp[2] + 0.03:
        why = f"The open hand has little room around the {item}: get exactly over it first."
        return Intent(why, [*scene.opened(), *path(tip, _over(scene, hover), orientation)])
    lift = line(grasp, scene.raised(grasp, LIFT_M))
    if lateral <= ALIGNED_M and tip[2] <= grasp[2] + 0.012:
        why = f"The fingers are around the {item}: close and lift."
        return Intent(why, [Move(at(grasp, "keep", "close"), True), *lift])
    if lateral <= ALIGNED_M and (going_down or not scene.brief.by_eye):
        descent = line(tip, grasp, orientation, "close", True)
    else:
        over = [hover] if lateral < 0.15 and tip[2] >= hover[2] - 0.03 else _over(scene, hover)
        descent = [*path(tip, over, orientation), *line(hover, grasp, "keep", "close", True)]
    why = f"Descend onto the {item} across its long side, close, lift."
    return Intent(why, [*scene.opened(), *descent, *lift])


def _is_cube(item: str) -> bool:
    return "cube" in item or "block" in item


def _long_side(scene: Scene, wrist: Region, answers: Answers, square: bool = False) -> float:
    """The yaw of the thing's long axis: from its located ends, or as it lies in the wrist view."""
    if wrist.elongation < LONG:
        yaw = scene.yaw_in_wrist_view(*wrist.edge)
        return (yaw + math.pi / 4) % (math.pi / 2) - math.pi / 4 if square else yaw
    ends = [p for p in answers["wrist item"].points.get("wrist", ())[1:] if p is not None]
    if len(ends) == 2 and apart_level(ends[1], ends[0]) > 0.02:
        along = ends[1] - ends[0]
        return math.atan2(along[1], along[0])
    return scene.yaw_in_wrist_view(*wrist.axes[2])


def _over(scene: Scene, hover: Array) -> list[Array]:
    """Up first where needed, then over: never sweep at the height of things."""
    tip = scene.tip
    height = max(tip[2], min(hover[2] + 0.02, scene.ceiling(tip)))
    up = np.array([tip[0], tip[1], height])
    return [up, hover] if height > tip[2] + 0.01 else [hover]


def _grasp_height(scene: Scene, item: str, point: Array, answers: Answers) -> float:
    """Where the tip must be: around a lying thing's middle, near the top of a standing one; below
    what was tried in vain.
    """
    misses = scene.page.empty_closes
    learned = scene.brief.learned_heights_m("close", axes=3, within_cm=6)
    depth = -float(np.median(learned)) if learned else None
    floor = answers["wrist floor"].all("wrist")
    floor_m = float(np.median([p[2] for p in floor])) if floor else None
    top = float(point[2])
    if any(word in item for word in TALL):
        return top - min((0.020 if depth is None else depth) + 0.006 * misses, 0.035)
    if depth is None:
        low = floor_m is not None and top - floor_m < 0.09
        depth = 0.5 * (top - floor_m) if low and floor_m is not None else kind(item).depth_m
    lowest = floor_m + FINGERTIP_M if floor_m is not None and floor_m < top else top - 0.05
    return max(top - depth - 0.005 * misses, lowest)


def carry(
    scene: Scene, item: str, place: str, centre: Array | None, orientation: Orientation = "keep"
) -> Intent:
    """Lift, bring it over the dish, turned as asked, lower it, let go and retreat."""
    tip = scene.tip
    if centre is None:
        why = f"I hold the {item} but do not see the {place}: move it aside and look."
        return Intent(why, _aside(scene))
    target = let_go_at(scene, item, place, centre)
    over = scene.raised(target, CARRY_M - 0.05)
    way: list[Move] = []
    start = tip
    if apart_level(tip, target) >= (TIGHT_M if scene.brief.by_eye else 0.03):
        up = np.array([tip[0], tip[1], max(tip[2], min(over[2], scene.ceiling(tip)))])
        points = [up, over] if up[2] > tip[2] + 0.015 else [over]
        way, start = path(tip, points, orientation), over
    why = f"Carry the {item} over the {place}, lower it, let go, retreat."
    return Intent(why, [*way, *line(start, target, "keep", "release"), *retreat(scene, target)])


def _approach(scene: Scene, item: str, place: str, drive: Drive) -> Intent:
    """Lift what is held clear of the place, then drive nearer to it."""
    tip = scene.tip
    clear = np.array([tip[0], tip[1], min(support.WORKTOP_M + CARRY_M, scene.ceiling(tip))])
    if tip[2] < clear[2] - OVER_M:
        return Intent(f"Lift the {item} clear of the {place}.", line(tip, clear))
    return Intent(f"The {place} is out of reach: drive nearer.", drive=drive)


def let_go_at(scene: Scene, item: str, place: str, centre: Array) -> Array:
    """Where the tip is to be when it lets go of what it holds."""
    tall, cube = any(word in item for word in TALL), _is_cube(item)
    hang = 0.085 if tall else 0.022 if cube else 0.035  # the held thing reaches so far below
    known = kind(item) is not BLOCK and not tall
    if known:
        hang = kind(item).height_m - kind(item).depth_m - kind(place).sinks_m
    learned = scene.brief.learned_heights_m("release", axes=2, within_cm=9)
    # a cube falls over where it is dropped from higher, and what is known needs no margin
    drop = 0.006 if cube or (known and not kind(item).round) else 0.015
    above = float(np.median(learned)) if learned and not tall else hang + drop
    return np.array([centre[0], centre[1], centre[2] + max(above, hang)])


def look_beside(scene: Scene, item: str, place: str, centre: Array) -> Intent | None:
    """Bring what is held over a place, but a little to the robot's side of it: there the wrist view
    shows the place whole. None when the hand is there.
    """
    over = scene.raised(let_go_at(scene, item, place, centre), CARRY_M - 0.05)
    beside = over - _beside_m(item) * scene.axis(0)
    if apart(scene.tip, beside) < 0.02:
        return None
    why = f"Carry the {item} to the {place} and look at it past what the fingers hold."
    return Intent(why, path(scene.tip, _over(scene, beside)))


def has_looked(scene: Scene, item: str, place: str, centre: Array) -> bool:
    """Whether the hand is past where it looks at a place: over it, or on its way down to it."""
    over = scene.raised(let_go_at(scene, item, place, centre), CARRY_M - 0.05)
    within_m = 2 * OVER_M if scene.tip[2] < over[2] - LOW_M else 0.5 * _beside_m(item)
    return scene.tip[2] < over[2] + OVER_M and apart_level(scene.tip, centre) < within_m


def _beside_m(item: str) -> float:
    return ROUND_BESIDE_M if kind(item).round else BESIDE_M


def retreat(scene: Scene, tip: Array) -> list[Move]:
    """Up, then back towards the robot, of several arms to its own side: well away from what was
    let go.
    """
    up = scene.raised(tip, 0.12)
    if scene.side:
        return path(tip, [up, aside(scene)])
    back = np.array([max(0.24, up[0] - 0.20), up[1] * 0.7, 0.0])
    back[2] = min(up[2] + 0.12, scene.ceiling(back))
    return path(tip, [up, back])


def aside(scene: Scene) -> Array:
    """Where one of two arms hides nothing from a camera across the table, on its own side."""
    return np.array([ASIDE_M[0], scene.side * ASIDE_M[1], ASIDE_M[2]])


def _aside(scene: Scene) -> list[Move]:
    """Out of the line of sight: up first, then back, then across, each time somewhere else than the
    page says was tried.
    """
    tip = scene.tip
    up = scene.raised(tip, 0.08)
    if scene.side:
        goal = scene.untried([aside(scene), up], 0.02)
        return path(tip, [up if goal is None else goal], scene.downwards())
    back = np.array([max(0.30, up[0] - 0.10), 0.6 * up[1], up[2]])
    across = np.array([0.36, -0.10 if tip[1] > 0 else 0.10, min(0.68, scene.ceiling(back))])
    home = np.array([0.36, 0.0, 0.68])
    goal = scene.untried([up, back, across, home], 0.02)
    if goal is None:
        goal = home if apart(home, tip) > 0.05 else across
    return path(tip, [goal], scene.downwards())
