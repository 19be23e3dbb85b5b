"""Work a control with closed fingers: press a lever down, swing a handle sideways, lift a head by
its bar.

Every one is the same in the end: a place from which the fingers start, a track along which they
push, and another track after one that led to nothing. Where the sequence stands is read off the
tip: on the track, in front of it, or elsewhere.
"""

from __future__ import annotations

import math
import re

import numpy as np

from capex.pilot import controls
from capex.pilot.cameras import PLACES
from capex.pilot.grounding import EXTERIOR, Answers, Asking, Intent, Located, apart_level, middle_of
from capex.pilot.scene import FINGER_END_M, SHUT_M, Scene, down, line
from capex.pilot.segmentation import Pixel, Region, find
from capex.pilot.skills.base_position import bring_ahead
from capex.pilot.skills.track import FINGER_HALF_M, Track, follow, from_above, lost, tries
from capex.pose import Array

# Over the mount, where each control is: what is located outside is the worktop or the wall.
LEVERS_M, HANDLES_M, LOW_HAND_M = (0.44, 0.62), (0.49, 0.62), (0.49, 0.56)
SHELL_M = 0.065  # a kettle's radius
LEVER_OUT_M = 0.104  # from a kettle's axis to its lever
# By try: how far from the lever's middle, outwards, and how the hand is turned against the shell.
LEVER_TRIES = ((0.008, 0.0), (0.018, 0.0), (0.0, 0.35), (0.008, -0.35))
LEVER_M = 0.10  # from a faucet handle's axis to where it is pushed
HANDLE_M = 0.108  # from that axis to the coloured end
SWINGS_RAD = (0.25, 0.55, 0.85)  # the last is farther than a faucet needs to run
BAR_HEIGHT_M = 0.735  # of a stand mixer's bar over the mount, head down
HEAD_M = 0.335  # from a mixer's hinge to its bar
HEAD_RAD = 0.80  # farther than a head needs to be open
BAR_OVER_M = 0.028  # the bar over the line from hinge to nose
UNDER_M = 0.022  # from the bar's middle down to a tip whose fingers touch it from below


def _spread(region: Region) -> list[Pixel]:
    return region.spots((0.0, -0.45, 0.45), (-0.35, 0.35))


# Kettle


def press_lever(scene: Scene, words: re.Match[str]) -> Asking:
    """Press the red lever of the kettle of a colour down."""
    seen = find(scene.views.values(), lambda v: controls.kettle_lever(v, words[1].lower()))
    levers = {c: _spread(lever) for c, (lever, _) in seen.items()}
    shells = {c: s.spots((0.0, -0.4, 0.4)) for c, (_, s) in seen.items() if c != "wrist"}
    answers = yield [*scene.ask("lever", levers, 0.52), *scene.ask("shell", shells, 0.56)]
    lever = _lever(answers["lever"])
    if lever is None:
        return lost(scene, f"lever of the {words[1]} kettle")
    if drive := bring_ahead(scene, lever, (0.36, 0.47, 0.58), 0.20):
        return Intent("Drive so that the kettle is in front of the hand.", drive=drive)
    count = tries(scene, lever)
    aside, turn = LEVER_TRIES[count % 4]
    turned = _kettle_yaw(scene, answers["shell"], lever) + turn
    x, y, z = lever + aside * np.array([-math.cos(turned), -math.sin(turned), 0.0])
    begin = np.array([x, y, z + FINGER_END_M + 0.03])
    end = np.array([x, y, z - 0.03 - 0.008 * min(count, 2)])
    return follow(scene, Track("lever", begin, [end], down(turned), from_above(scene.tip, begin)))


def _kettle_yaw(scene: Scene, shell: Located, lever: Array) -> float:
    """How the kettle is turned: the wide hand must come down along its shell. The axis lies behind
    the seen side of the shell.
    """
    radius = SHELL_M if scene.brief.locate else 0.0
    axes = []
    for camera in EXTERIOR:
        front = shell.middle(camera)
        if front is not None and apart_level(front, lever) < 0.20:
            sight = (front - np.array(PLACES[camera])) * (1, 1, 0)
            axes.append(front + radius * sight / float(np.linalg.norm(sight)))
    if not axes:
        return 0.0
    inwards = np.mean(axes, axis=0) - lever
    yaw = math.asin(float(np.clip(inwards[1] / LEVER_OUT_M, -1.0, 1.0)))
    return float(np.clip(yaw, -0.7, 0.7))


def _lever(located: Located) -> Array | None:
    """The middle of the lever's upper side: spots that fell off it onto the worktop or the wall
    behind are left out.
    """
    points = [p for p in located.all() if LEVERS_M[0] < p[2] < LEVERS_M[1]]
    if not points:
        return None
    stack = np.stack(points)
    middle = np.median(stack, axis=0)
    near = stack[np.linalg.norm((stack - middle)[:, :2], axis=1) < 0.05]
    near = near if len(near) else stack
    upper = near[near[:, 2] > middle[2] - 0.02]
    return np.array([*(upper.mean(axis=0)[:2]), float(np.median(upper[:, 2]))])


# Faucet


def swing_handle(scene: Scene, words: re.Match[str]) -> Asking:
    """Swing a faucet's handle outwards from its inner side."""
    side = 1.0 if words[1].lower() == "left" else -1.0
    seen = find(scene.exterior(), lambda v: controls.faucet_handle(v, words[2].lower()))
    caps = {c: _spread(cap) for c, (cap, _) in seen.items()}
    ends = {c: _spread(end) for c, (_, end) in seen.items()}
    answers = yield [*scene.ask("cap", caps, 0.56), *scene.ask("end", ends, 0.55)]
    handle = _handle(answers)
    if handle is None:
        return _swing_on(scene, side) or lost(scene, f"{words[1]} handle")
    pivot, grip = handle
    if drive := bring_ahead(scene, grip, (0.44, 0.56, 0.62), 0.20):
        return Intent("Drive so that the faucet's handle is in front of the hand.", drive=drive)
    return follow(scene, _handle_track(scene, pivot, grip, side))


def _swing_on(scene: Scene, side: float) -> Intent | None:
    """The hand hides the handle that it has come down beside: push outwards as far as a swing is
    long, counted from where it came down.
    """
    tip, goals = scene.tip, scene.page.goals_m()
    lowered = [k for k in range(1, len(goals)) if goals[k][2] < goals[k - 1][2] - 0.02]
    low = LOW_HAND_M[0] < tip[2] < LOW_HAND_M[1] and scene.points_down()
    if not low or scene.page.opening_m >= SHUT_M or not lowered:
        return None
    swung = side * float(tip[1] - goals[lowered[-1]][1])
    if any(p[2] > tip[2] + 0.03 for p in goals[lowered[-1] :]) or not -0.03 < swung < 0.11:
        return None
    goal = tip + np.array([-0.012, 0.05 * side, 0.0])
    why = "The hand hides the handle beside it: push on outwards."
    return Intent(why, line(tip, goal, touch=True))


def _handle(answers: Answers) -> tuple[Array, Array] | None:
    """A handle's axis and the place near its end where it is pushed."""
    low, high = HANDLES_M
    pivot, end = (
        middle_of([p for p in answers[name].all() if low < p[2] < high], 0.05)
        for name in ("cap", "end")
    )
    if pivot is None:
        if end is None:
            return None
        pivot = end + np.array([HANDLE_M, 0.0, 0.0])
    along = np.array([-1.0, 0.0, 0.0])
    if end is not None and 0.05 < apart_level(end, pivot) < 0.17:
        along = (end - pivot) * (1, 1, 0)
        along = along / float(np.linalg.norm(along))
    height = float(end[2]) if end is not None else float(pivot[2]) - 0.01
    grip = pivot + LEVER_M * along
    return pivot, np.array([grip[0], grip[1], height])


def _handle_track(scene: Scene, pivot: Array, grip: Array, side: float) -> Track:
    count = tries(scene, grip, 0.12)
    along = (grip - pivot) * (1, 1, 0) / LEVER_M
    across = side * np.array([along[1], -along[0], 0.0])  # outwards
    away = FINGER_HALF_M + 0.0115  # from the handle's middle to that of fingers beside it
    height = grip[2] - 0.012
    begin = grip - (away + 0.028 + 0.006 * min(count, 2)) * across
    begin[2] = height
    pushes = []
    for angle in SWINGS_RAD:
        turn = -side * angle  # seen from above, the left handle turns clockwise
        point = pivot + LEVER_M * _turned(along, turn) - (away - 0.018) * _turned(across, turn)
        pushes.append(np.array([point[0], point[1], height]))
    return Track("handle", begin, pushes, down(0.0), from_above(scene.tip, begin))


def _turned(level: Array, by_rad: float) -> Array:
    c, s = math.cos(by_rad), math.sin(by_rad)
    return np.array([c * level[0] - s * level[1], s * level[0] + c * level[1], 0.0])


# Stand mixer


def lift_head(scene: Scene, words: re.Match[str]) -> Asking:
    """Lift a stand mixer's head by the bar at its nose, from below, along its arc."""
    seen = find(scene.views.values(), lambda v: controls.mixer_bar(v, words[1].lower()))
    spots = {c: s.spots((-0.9, -0.45, 0.0, 0.45, 0.9), (-0.7, 0.7)) for c, s in seen.items()}
    answers = yield scene.ask("bar", spots, BAR_HEIGHT_M)
    bar = _bar(answers["bar"])
    if bar is None:
        return lost(scene, f"bar of the {words[1]} mixer", "forward")
    if drive := bring_ahead(scene, bar, (0.46, 0.54, 0.60), 0.15):
        return Intent("Drive so that the mixer's nose is in front of the hand.", drive=drive)
    return follow(scene, _head_track(scene, bar))


def _bar(located: Located) -> Array | None:
    """The bar's middle: the foremost of the spots at its height; its posts and the head lie behind
    them, the bowl below.
    """
    points = [p for p in located.all() if BAR_HEIGHT_M - 0.06 < p[2] < BAR_HEIGHT_M + 0.30]
    if not points:
        return None
    stack = np.stack(points)
    near = stack[np.linalg.norm(stack - np.median(stack, axis=0), axis=1) < 0.10]
    near = near if len(near) else stack
    front = near[near[:, 0] <= float(np.percentile(near[:, 0], 30)) + 0.02]
    x, z = float(np.median(front[:, 0])), float(np.median(front[:, 2]))
    return np.array([x, float(near[:, 1].mean()), z])


def _head_track(scene: Scene, bar: Array) -> Track:
    tip, count = scene.tip, tries(scene, bar, 0.12)
    deeper = (0.012, 0.018, 0.006)[count % 3]
    if float(np.linalg.norm((tip - bar)[[0, 2]])) < 0.07 and abs(tip[1] - bar[1]) < 0.05:
        bar = np.array([bar[0], tip[1], bar[2]])  # anywhere under the bar is as good
        if scene.page.touching and count % 3 != 0:
            bar = tip + np.array([-deeper, 0.0, UNDER_M])  # felt: it lies right on the fingers
    height = max(float(bar[2]), BAR_HEIGHT_M)
    is_open = height > BAR_HEIGHT_M + 0.04
    now = math.asin(min(0.7, (height - BAR_HEIGHT_M) / HEAD_M)) if is_open else 0.0

    def under(angle: float, gap: float) -> Array:
        """Where the tip is when it touches the bar from below at an opening, so far below."""
        sines, cosines = math.sin(angle) - math.sin(now), math.cos(angle) - math.cos(now)
        back = HEAD_M * -cosines + BAR_OVER_M * sines
        rise = HEAD_M * sines + BAR_OVER_M * cosines
        return np.asarray(bar + np.array([back + deeper, 0.0, rise - UNDER_M - gap]))

    begin, gap = under(now, 0.028), -0.034 - 0.006 * min(count, 3)
    pushes = [under(now + (HEAD_RAD - now) * k / 4, gap) for k in range(1, 5)]
    low = np.array([min(tip[0], begin[0] - 0.12), begin[1], begin[2]])
    clear = np.array([low[0], tip[1], tip[2]])
    return Track("bar", begin, pushes, "forward", [clear, low])
