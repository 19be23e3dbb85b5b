"""Set a standing thing down in a place open to the front (a cupboard, a coffee machine): the hand
points forward all the way.
"""

from __future__ import annotations

import re

import numpy as np
from scipy import ndimage

from capex.pilot import appearance
from capex.pilot.grounding import Answers, Asking, Drive, Feature, Intent, Move, apart, apart_level
from capex.pilot.prompt import targets_m
from capex.pilot.scene import Scene, beyond, line, path
from capex.pilot.segmentation import Colour, Pixel, Region, View, find, regions
from capex.pilot.skills.base_position import may_drive
from capex.plan import at
from capex.pose import Array

THINGS: dict[str, tuple[Colour, ...]] = {
    "box of cereal": (Colour(220, 0.64, 3), Colour(43, 0.82, 3)),
    "can": (Colour(220, 0.695, 3, 0.03), Colour(140, 0.60, 4), Colour(0, 0.80, 4)),
    "jar of jam": (Colour(349, 0.89, 5), Colour(28, 0.90, 2.5, 0.02)),
    "bottle": (Colour(120, 0.47, 4), Colour(21, 0.78, 3)),
    "blue mug": (Colour(218, 0.79, 4),),
    "green mug": (Colour(137, 0.64, 4),),
    "red mug": (Colour(0, 0.85, 4),),
    "yellow mug": (Colour(46.5, 0.79, 3),),
}
BUTTON = Colour(206, 0.74, 4, 0.06, 0.3)
BACK = Colour(40, 0.132, 5, 0.022, 0.25)  # the pale inside of a cupboard
WHITE = Colour(45, 0.045, 8, 0.016, 0.38, 0.95)
TAKE_M = 0.50  # how far ahead a thing is when it is taken
REACH_M = 0.66  # how far the arm reaches with the hand forward
LEDGE_M = 0.59  # height of the ledge that things are taken from, above the robot's mount
RADIUS_M = 0.036  # of a thing that a hand can take
HANGS_M = (0.045, 0.065, 0.11)  # below the tip a held thing ends: at least, usually, at most
BEFORE_M = 0.19  # what is carried across is kept this far before its place
LINE_UP_M = 0.115  # before a grasp, the open fingers end clear of the thing
ALIGNED_M = 0.018  # so near to the straight line onto a thing, the hand is lined up
OUT = np.array([0.30, 0.0, 0.0])  # drawn back: a task wants the hand over 25 cm away
CEILING_M = 0.80  # no higher when drawing back to look: plan.CEILING_M near the mount


def shelve(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision: take the thing from the front, or set it down in its place."""
    item, cabinet = words[1], words[2]
    asks = _cabinet(scene) if cabinet else _machine(scene)
    if not scene.page.holding:
        spots = find(scene.views.values(), lambda v: _item(v, item))
        asks += scene.ask("item", spots, 0.55)
    answers = yield asks
    target = _shelf(answers) if cabinet else _tray(answers)
    if scene.page.holding:
        return _set_down(scene, item, target)
    return _take(scene, item, answers, target)


def _item(view: View, item: str) -> list[Pixel]:
    """Spots down the thing's middle, from top to bottom."""
    if item == "white mug":
        candidates = _whites(view)
    else:
        mask = view.like(*THINGS.get(item, ())) & ~appearance.hand_zone(view)
        candidates = regions(mask, 0.0006, 0.2, close=2)
    if not candidates:
        return []
    thing = candidates[0]
    u, top, low = thing.centre[0], float(thing.rows.min()), float(thing.rows.max())
    return [thing.at((u, top + f * (low - top))) for f in (0.08, 0.3, 0.5, 0.7, 0.94)]


def _whites(view: View) -> list[Region]:
    """White things on speckled stone: the smooth parts of it, upright and not too large."""
    white = view.like(WHITE) & ~appearance.hand_zone(view)
    rough = np.abs(view.value - ndimage.median_filter(view.value, 3)) > 0.012
    speckled = rough & ndimage.binary_erosion(white, iterations=2)
    smooth = white & ~ndimage.binary_dilation(speckled, iterations=3)
    upright = []
    for s in regions(ndimage.binary_opening(smooth, iterations=2), 0.0010, 0.03):
        height, width = np.ptp(s.rows), np.ptp(s.columns)
        if height > 0.8 * width and s.area > 0.55 * (height + 1) * (width + 1):
            upright.append(s)
    return upright


def _machine(scene: Scene) -> list[Feature]:
    """The coffee machine's blue button and the striped tray under it."""
    buttons, trays = {}, {}
    for view in scene.views.values():
        blue = regions(view.like(BUTTON), 0.00004, 0.01)
        if not blue:
            continue
        u, v = blue[0].centre
        buttons[view.camera] = [blue[0].centre]
        high, low = ndimage.maximum_filter(view.value, 7), ndimage.minimum_filter(view.value, 7)
        striped = (high - low > 0.35) & (low < 0.22) & (view.saturation < 0.25)
        for tray in regions(striped, 0.0008, 0.1, close=2):
            below = 0 < tray.centre[1] - v < 0.5 * view.height
            if below and abs(tray.centre[0] - u) < 0.14 * view.width and tray.elongation < 6:
                trays[view.camera] = [tray.at(tray.centre), *tray.spots((-0.4, 0.4))]
                break
    return [*scene.ask("button", buttons, 0.86), *scene.ask("tray", trays, 0.60)]


def _tray(answers: Answers) -> Array | None:
    """The spot under the spout: under the button, a little behind it, on the tray."""
    top = answers["button"].best()
    if top is None:
        return None
    under = [p for p in answers["tray"].all() if abs(p[1] - top[1]) < 0.15]
    heights = [p[2] for p in under if 0.15 < top[2] - p[2] < 0.36]
    height = float(np.median(heights)) if heights else float(top[2]) - 0.25
    return np.array([top[0] + 0.055, top[1], height])


def _cabinet(scene: Scene) -> list[Feature]:
    """The open cupboard: its pale back framed by wood, and the shelf below it."""
    return scene.ask("shelf", find(scene.views.values(), _shelf_spots), 0.66)


def _shelf_spots(view: View) -> list[Pixel]:
    """A pixel on the shelf below a cupboard's back, and one on its front edge."""
    wood = view.like(Colour(28.5, 0.56, 4, 0.07, 0.05))
    for back in regions(view.like(BACK) & ~appearance.hand_zone(view), 0.002, 0.12):
        left, right = int(back.columns.min()), int(back.columns.max())
        middle, row, low = (left + right) // 2, int(np.median(back.rows)), int(back.rows.max())
        sides = (wood[row, max(0, left - 10) : left], wood[row, right + 1 : right + 11])
        under = np.flatnonzero(~wood[low + 2 :, middle])
        depth = int(under[0]) if under.size else 0
        if all(side.size > 4 and side.mean() > 0.4 for side in sides) and depth > 4:
            return [(middle + 0.5, low + 2 + f * depth) for f in (0.25, 0.6)]
    return []


def _shelf(answers: Answers) -> Array | None:
    """A spot on the shelf, a little behind its front edge."""
    rows = [row for row in answers["shelf"].points.values() if len(row) == 2]
    floor = [row[0] for row in rows if row[0] is not None]
    if not floor:
        return None
    centre = np.median(np.stack(floor), axis=0)
    edges = [row[1][0] for row in rows if row[0] is not None and row[1] is not None]
    front = min([float(centre[0]), *map(float, edges)])
    return np.array([front + 0.06, centre[1], centre[2]])


def _take(scene: Scene, item: str, answers: Answers, target: Array | None) -> Intent:
    """In front of the thing, then onto it, close, lift."""
    tip = scene.tip
    near = answers["item"].best(0.08)
    if near is None:
        executed = scene.page.executed
        if executed and executed[-1].gripper == "release":
            return Intent("Let go; draw the hand back.", line(tip, tip - OUT, "forward"))
        height = min(tip[2] + 0.05, CEILING_M)
        goal = np.array([max(0.30, tip[0] - 0.09), 0.5 * tip[1], height])
        why = f"I do not see the {item}: draw back and look."
        return Intent(why, line(tip, goal, "forward"))
    spots = [p for p in answers["item"].all() if apart_level(p, near) < 0.09]
    heights = np.stack(spots or [near])[:, 2]
    low, high = float(np.percentile(heights, 8)), float(np.percentile(heights, 95))
    centre = np.array([near[0] + 0.6 * RADIUS_M, near[1], low])
    if target is not None and apart_level(centre, target) < 0.06 and scene.page.released:
        why = f"The {item} stands in its place: draw back."
        return Intent(why, line(tip, tip - OUT, "forward"))
    ahead = centre[0] - TAKE_M
    if may_drive(scene) and (ahead > 0.05 or ahead < -0.09 or abs(centre[1]) > 0.14):
        drive = Drive(float(np.clip(ahead, -0.5, 0.5)), float(np.clip(centre[1], -0.3, 0.3)))
        return Intent(f"Drive so that the {item} stands half a metre ahead.", drive=drive)
    grip_m = min(max(0.55 * (high - low), 0.055), 0.10)  # over its foot
    grasp = np.array([centre[0] + 0.004 * scene.page.empty_closes, centre[1], low + grip_m])
    before = grasp - np.array([LINE_UP_M, 0.0, 0.0])
    lined = apart(tip[1:], before[1:]) < ALIGNED_M and tip[0] > before[0] - 0.03
    lift = line(grasp, grasp + np.array([0.0, 0.0, 0.06]), "forward")
    if lined and tip[0] > grasp[0] - 0.012:
        why = f"The fingers are around the {item}: close and lift."
        return Intent(why, [Move(at(grasp, "forward", "close"), True), *lift])
    moves = scene.opened("forward")
    why = f"Straight onto the {item}, close, lift."
    start = tip
    if not lined:
        back = np.array([min(tip[0], before[0]), tip[1], tip[2]])
        beside = np.array([back[0], before[1], before[2]])
        moves += path(tip, [*beyond(tip, back, beside), before], "forward")
        why = f"Line up in front of the {item}, then straight on, close, lift."
        start = before
    return Intent(why, [*moves, *line(start, grasp, "forward", "close", True), *lift])


def _set_down(scene: Scene, item: str, place: Array | None) -> Intent:
    """Up and across before the place, in, down, let go, back."""
    tip = scene.tip
    if place is None:
        height = min(tip[2] + 0.04, CEILING_M)
        goal = np.array([max(0.36, tip[0] - 0.06), tip[1] * 0.7, height])
        # Drawn back already: let the base look from elsewhere.
        if apart(goal, tip) < 0.03:
            why = f"I still do not see where the {item} belongs: back off."
            return Intent(why, drive=Drive(-0.15, 0.10 if len(scene.page.acts) % 2 else -0.20))
        why = f"I hold the {item} but do not see where it belongs: draw back and look."
        return Intent(why, line(tip, goal, "forward"))
    target = np.array([place[0], place[1], place[2] + _hang(scene)])
    height = max(target[2] + 0.03, min(tip[2], target[2] + 0.06))
    in_reach = target[0] <= REACH_M + 0.02
    if abs(target[1] - tip[1]) <= 0.03 and tip[2] >= target[2] + 0.012:
        if not in_reach and scene.brief.base_motion:
            drive = Drive(float(min(0.5, target[0] - REACH_M + 0.02)))
            return Intent("Drive closer: the arm is too short.", drive=drive)
        why = f"Set the {item} down in its place, let go, draw back."
        return Intent(why, _in_and_out(tip, target, height))
    if abs(target[1]) > 0.30 and scene.brief.base_motion:
        clear = np.array([min(tip[0], 0.40), tip[1], max(tip[2], height)])
        if apart(clear, tip) > 0.03:
            way = [np.array([tip[0], tip[1], clear[2]]), clear]
            return Intent("Draw it back and up before driving.", path(tip, way, "forward"))
        drive = Drive(0.0, float(np.clip(target[1], -0.4, 0.4)))
        return Intent("Drive sideways to where it belongs.", drive=drive)
    back_m = max(0.30, min(tip[0], target[0] - BEFORE_M))
    up, back = np.array([tip[0], tip[1], height]), np.array([back_m, tip[1], height])
    side = np.array([back_m, target[1], height])
    moves = path(tip, beyond(tip, up, back, side) or [side], "forward")
    if in_reach:
        moves += _in_and_out(side, target, height)
    return Intent(f"Bring the {item} in front of its place.", moves)


def _in_and_out(tip: Array, target: Array, height: float) -> list[Move]:
    over = np.array([target[0], target[1], height])
    down = target + np.array([0.0, 0.0, 0.008])
    way = line(tip, over, "forward") if apart(over, tip) > 0.02 else []
    let_go = line(over, down, "forward", "release", True)
    return [*way, *let_go, *line(down, down - OUT, "forward")]


def _hang(scene: Scene) -> float:
    """How far below the tip the held thing ends: from where it was taken, if the page still says,
    with a ledge at the usual height.
    """
    least, usual, most = HANGS_M
    closes = [w for w in scene.page.executed if w.gripper in ("close", "reclose")]
    taken = targets_m(closes)
    return float(np.clip(taken[-1][2] - LEDGE_M, least, most)) if taken else usual
