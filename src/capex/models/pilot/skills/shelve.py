"""Set a standing thing down in a place open to the front (a cupboard, a coffee machine): the hand
points forward all the way.
"""

from __future__ import annotations

import re

import numpy as np
from scipy import ndimage

from capex.models.pilot import looks
from capex.models.pilot.eyes import Colour, Pixel, Shape, View, shapes
from capex.models.pilot.ground import Answers, Asking, Drive, Feature, Found, Intent, Move
from capex.models.pilot.scene import Scene, line, path
from capex.plan import at
from capex.pose import Array

SHELVE = re.compile(
    r"pick the (.+?)(?: from the \w+)? and place it (?:in the (open \w+ cabinet)|under the (spout)"
    r" of the coffee machine)",
    re.I,
)
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
BEFORE_M = 0.19  # what is carried across is kept this far before its place


def shelve(scene: Scene) -> Asking:
    """One decision: take the thing from the front, or set it down in its place."""
    words = SHELVE.search(scene.page.instruction)
    assert words is not None
    item, cabinet = words[1], words[2]
    holding = scene.page.word == "holding"
    asks = _cabinet(scene) if cabinet else _machine(scene)
    if not holding and (feature := _item(scene, item)) is not None:
        asks.append(feature)
    answers = (yield asks) if asks else {}
    place = _shelf(answers) if cabinet else _tray(answers)
    if holding:
        return _set_down(scene, item, place)
    return _take(scene, item, answers, place)


def _item(scene: Scene, item: str) -> Feature | None:
    """The thing: spots down its middle, from top to bottom."""
    spots: dict[str, list[Pixel]] = {}
    for view in scene.views.values():
        found = (
            _whites(view)
            if item == "white mug"
            else shapes(
                view,
                view.like(*THINGS.get(item, ())) & ~looks.hand_zone(view),
                0.0006,
                0.2,
                close=2,
            )
        )
        if found:
            shape = found[0]
            u, top, low = shape.centre[0], float(shape.rows.min()), float(shape.rows.max())
            spots[view.camera] = [
                shape.at((u, top + f * (low - top))) for f in (0.08, 0.3, 0.5, 0.7, 0.94)
            ]
    return scene.feature("item", spots, 0.55) if spots else None


def _whites(view: View) -> list[Shape]:
    """White things on speckled stone: the smooth parts of it, upright and not too large."""
    white = view.like(WHITE) & ~looks.hand_zone(view)
    rough = np.abs(view.value - ndimage.median_filter(view.value, 3)) > 0.012
    smooth = white & ~ndimage.binary_dilation(
        rough & ndimage.binary_erosion(white, iterations=2), iterations=3
    )
    found = [
        s
        for s in shapes(view, ndimage.binary_opening(smooth, iterations=2), 0.0010, 0.03)
        if np.ptp(s.rows) > 0.8 * np.ptp(s.columns)
    ]
    return [s for s in found if s.area > 0.55 * (np.ptp(s.rows) + 1) * (np.ptp(s.columns) + 1)]


def _machine(scene: Scene) -> list[Feature]:
    """The coffee machine's blue button and the striped tray under it."""
    buttons, trays = {}, {}
    for view in scene.views.values():
        found = shapes(view, view.like(BUTTON), 0.00004, 0.01)
        if not found:
            continue
        u, v = found[0].centre
        buttons[view.camera] = [found[0].centre]
        high, low = ndimage.maximum_filter(view.value, 7), ndimage.minimum_filter(view.value, 7)
        striped = (high - low > 0.35) & (low < 0.22) & (view.saturation < 0.25)
        below = [
            s
            for s in shapes(view, striped, 0.0008, 0.1, close=2)
            if s.centre[1] > v and abs(s.centre[0] - u) < 0.14 * view.width
        ]
        below = [s for s in below if s.elongation < 6 and s.centre[1] - v < 0.5 * view.height]
        if below:
            trays[view.camera] = [
                below[0].at(below[0].centre),
                below[0].along(-0.4),
                below[0].along(0.4),
            ]
    features = [scene.feature("button", buttons, 0.86)] if buttons else []
    return features + ([scene.feature("tray", trays, 0.60)] if trays else [])


def _tray(answers: Answers) -> Array | None:
    """The spot under the spout: under the button, a little behind it, on the tray."""
    button, tray = answers.get("button", Found()), answers.get("tray", Found())
    top = button.agreed() if button.agreed() is not None else button.middle("wrist")
    if top is None:
        return None
    heights = [
        p[2] for p in tray.all() if 0.15 < top[2] - p[2] < 0.36 and abs(p[1] - top[1]) < 0.15
    ]
    height = float(np.median(heights)) if heights else float(top[2]) - 0.25
    return np.array([top[0] + 0.055, top[1], height])


def _cabinet(scene: Scene) -> list[Feature]:
    """The open cupboard: its pale back framed by wood, and the shelf below it."""
    spots = {}
    for view in scene.views.values():
        wood = view.like(Colour(28.5, 0.56, 4, 0.07, 0.05))
        for back in shapes(view, view.like(BACK) & ~looks.hand_zone(view), 0.002, 0.12):
            left, right, low = (
                int(back.columns.min()),
                int(back.columns.max()),
                int(back.rows.max()),
            )
            middle, row = (left + right) // 2, int(np.median(back.rows))
            sides = (wood[row, max(0, left - 10) : left], wood[row, right + 1 : right + 11])
            under = np.flatnonzero(~wood[low + 2 :, middle])
            depth = int(under[0]) if under.size else 0
            if all(side.size > 4 and side.mean() > 0.4 for side in sides) and depth > 4:
                spots[view.camera] = [(middle + 0.5, low + 2 + f * depth) for f in (0.25, 0.6)]
                break
    return [scene.feature("shelf", spots, 0.66)] if spots else []


def _shelf(answers: Answers) -> Array | None:
    """A spot on the shelf, a little behind its front edge."""
    found = answers.get("shelf", Found())
    rows = [row for row in found.points.values() if len(row) == 2 and row[0] is not None]
    if not rows:
        return None
    floor = np.stack([row[0] for row in rows if row[0] is not None])
    centre = np.median(floor, axis=0)
    fronts = [row[1][0] for row in rows if row[1] is not None]
    front = min([float(centre[0]), *map(float, fronts)])
    return np.array([front + 0.06, centre[1], centre[2]])


def _take(scene: Scene, item: str, answers: Answers, place: Array | None) -> Intent:
    """In front of the thing, then onto it, close, lift."""
    tip = scene.tip
    found = answers.get("item", Found())
    near = found.agreed(0.08) if found.agreed(0.08) is not None else found.middle("wrist")
    if near is None:
        if scene.page.told and scene.page.told[-1].gripper == "release":
            return Intent(
                "Let go; draw the hand back.",
                tuple(line(tip, tip - np.array([0.30, 0.0, 0.0]), "forward")),
            )
        goal = np.array([max(0.30, tip[0] - 0.09), 0.5 * tip[1], min(tip[2] + 0.05, 0.80)])
        return Intent(
            f"I do not see the {item}: draw back and look.", tuple(line(tip, goal, "forward"))
        )
    points = np.stack(
        [p for p in found.all() if float(np.linalg.norm((p - near)[:2])) < 0.09] or [near]
    )
    low, high = float(np.percentile(points[:, 2], 8)), float(np.percentile(points[:, 2], 95))
    centre = np.array([near[0] + 0.6 * RADIUS_M, near[1], low])
    if (
        place is not None
        and float(np.linalg.norm((centre - place)[:2])) < 0.06
        and _released(scene)
    ):
        return Intent(
            f"The {item} stands in its place: draw back.",
            tuple(line(tip, tip - np.array([0.30, 0.0, 0.0]), "forward")),
        )
    ahead = centre[0] - TAKE_M
    drives = sum(w.base for w in scene.page.told)
    if (
        scene.brief.base_motion
        and drives < 3
        and (ahead > 0.05 or ahead < -0.09 or abs(centre[1]) > 0.14)
    ):
        return Intent(
            f"Drive so that the {item} stands half a metre ahead.",
            drive=Drive(float(np.clip(ahead, -0.5, 0.5)), float(np.clip(centre[1], -0.3, 0.3))),
        )
    grasp = np.array(
        [
            centre[0] + 0.004 * _misses(scene),
            centre[1],
            low + min(max(0.55 * (high - low), 0.055), 0.10),
        ]
    )
    before = grasp - np.array([0.115, 0.0, 0.0])
    opening = [Move(at(tip, "forward", "open"))] if scene.page.opening_m < 0.07 else []
    lined = float(np.linalg.norm((tip - before)[1:])) < 0.018 and tip[0] > before[0] - 0.03
    lift = line(grasp, grasp + np.array([0.0, 0.0, 0.06]), "forward")
    if lined and tip[0] > grasp[0] - 0.012:
        return Intent(
            f"The fingers are around the {item}: close and lift.",
            (Move(at(grasp, "forward", "close"), True), *lift),
        )
    if lined:
        return Intent(
            f"Straight onto the {item}, close, lift.",
            (*opening, *line(tip, grasp, "forward", "close", True), *lift),
        )
    back = np.array([min(tip[0], before[0]), tip[1], tip[2]])
    beside = np.array([back[0], before[1], before[2]])
    way = path(
        tip,
        [p for p in (back, beside) if float(np.linalg.norm(p - tip)) > 0.012] + [before],
        "forward",
    )
    return Intent(
        f"Line up in front of the {item}, then straight on, close, lift.",
        (*opening, *way, *line(before, grasp, "forward", "close", True), *lift),
    )


def _set_down(scene: Scene, item: str, place: Array | None) -> Intent:
    """Up and across before the place, in, down, let go, back."""
    tip = scene.tip
    if place is None:
        goal = np.array([max(0.36, tip[0] - 0.06), tip[1] * 0.7, min(tip[2] + 0.04, 0.80)])
        # Drawn back already: let the base look from elsewhere.
        if float(np.linalg.norm(goal - tip)) < 0.03:
            return Intent(
                f"I still do not see where the {item} belongs: back off.",
                drive=Drive(-0.15, 0.10 if len(scene.page.acts) % 2 else -0.20),
            )
        return Intent(
            f"I hold the {item} but do not see where it belongs: draw back and look.",
            tuple(line(tip, goal, "forward")),
        )
    hang = _hang(scene)
    target = np.array([place[0], place[1], place[2] + hang])
    height = max(target[2] + 0.03, min(tip[2], target[2] + 0.06))
    if abs(target[1] - tip[1]) > 0.03 or tip[2] < target[2] + 0.012:
        if abs(target[1]) > 0.30 and scene.brief.base_motion:
            clear = np.array([min(tip[0], 0.40), tip[1], max(tip[2], height)])
            if float(np.linalg.norm(clear - tip)) > 0.03:
                return Intent(
                    "Draw it back and up before driving.",
                    tuple(path(tip, [np.array([tip[0], tip[1], clear[2]]), clear], "forward")),
                )
            return Intent(
                "Drive sideways to where it belongs.",
                drive=Drive(0.0, float(np.clip(target[1], -0.4, 0.4))),
            )
        back_m = max(0.30, min(tip[0], target[0] - BEFORE_M))
        up, back, side = (
            np.array(p)
            for p in (
                (tip[0], tip[1], height),
                (back_m, tip[1], height),
                (back_m, target[1], height),
            )
        )
        moves = path(
            tip,
            [p for p in (up, back, side) if float(np.linalg.norm(p - tip)) > 0.012] or [side],
            "forward",
        )
        if target[0] <= REACH_M + 0.02:
            moves = [*moves, *_in_and_out(side, target, height)]
        return Intent(f"Bring the {item} in front of its place.", tuple(moves))
    if target[0] > REACH_M + 0.02 and scene.brief.base_motion:
        return Intent(
            "Drive closer: the arm is too short.",
            drive=Drive(float(min(0.5, target[0] - REACH_M + 0.02))),
        )
    return Intent(
        f"Set the {item} down in its place, let go, draw back.",
        tuple(_in_and_out(tip, target, height)),
    )


def _in_and_out(tip: Array, target: Array, height: float) -> list[Move]:
    over = np.array([target[0], target[1], height])
    down = target + np.array([0.0, 0.0, 0.008])
    way = line(tip, over, "forward") if float(np.linalg.norm(over - tip)) > 0.02 else []
    return [
        *way,
        *line(over, down, "forward", "release", True),
        *line(down, down - np.array([0.30, 0.0, 0.0]), "forward"),
    ]


def _hang(scene: Scene) -> float:
    """How far below the tip the held thing ends: from where it was taken, if the page still says,
    with a ledge at the usual height.
    """
    closes = [
        w for w in scene.page.told if w.gripper in ("close", "reclose") and w.target_cm is not None
    ]
    if closes and closes[-1].target_cm is not None:
        return float(np.clip(closes[-1].target_cm[2] / 100 - LEDGE_M, 0.045, 0.11))
    return 0.065


def _misses(scene: Scene) -> int:
    return sum(
        w.gripper in ("close", "reclose")
        and "finger contact" not in w.report.partition(": opening")[2]
        for w in scene.page.told
    )


def _released(scene: Scene) -> bool:
    return any(
        w.gripper in ("release", "open") and w.target_cm is not None for w in scene.page.told
    )
