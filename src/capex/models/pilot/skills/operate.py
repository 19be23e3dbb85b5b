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

from capex.models.pilot import controls
from capex.models.pilot.eyes import Shape
from capex.models.pilot.ground import Answers, Asking, Feature, Found, Intent
from capex.models.pilot.rig import PLACES
from capex.models.pilot.scene import Scene, down, line, spots_on
from capex.models.pilot.skills.track import (
    FINGER_HALF_M,
    Track,
    follow,
    from_above,
    lost,
    stand,
    tries,
)
from capex.pose import Array

KETTLE = re.compile(r"turn on the (\w+) kettle", re.I)
FAUCET = re.compile(r"(left|right) handle, the one with the (\w+) cap", re.I)
MIXER = re.compile(r"head of the (\w+) (?:stand )?mixer", re.I)
TIP_TO_END_M = 0.0125
LEVER_M = 0.10  # from a faucet handle's axis to where it is pushed
BAR_HEIGHT_M = 0.735  # of a stand mixer's bar over the mount, head down
HEAD_M = 0.335  # from a mixer's hinge to its bar
HEAD_RAD = 0.80
SHELL_M = 0.065  # a kettle's radius


# Kettle


def press_lever(scene: Scene) -> Asking:
    """Press the red lever of the kettle of a colour down."""
    words = KETTLE.search(scene.page.instruction)
    assert words is not None
    seen = {
        v.camera: s
        for v in scene.views.values()
        if (s := controls.kettle_lever(v, words[1].lower())) is not None
    }
    asks = (
        [scene.feature("lever", {c: _spread(s) for c, (s, _) in seen.items()}, 0.52)]
        if seen
        else []
    )
    shells = {
        c: spots_on(shell, (0.0, -0.4, 0.4)) for c, (_, shell) in seen.items() if c != "wrist"
    }
    asks += [scene.feature("shell", shells, 0.56)] if shells else []
    answers = (yield asks) if asks else {}
    lever = _lever(answers.get("lever", Found()))
    if lever is None:
        return lost(scene, f"lever of the {words[1]} kettle")
    if drive := stand(scene, lever, (0.36, 0.47, 0.58), 0.20):
        return Intent("Drive so that the kettle is in front of the hand.", drive=drive)
    count = tries(scene, lever)
    turned = (
        _kettle_yaw(scene, answers.get("shell", Found()), lever)
        + (0.0, 0.0, 0.35, -0.35)[count % 4]
    )
    outwards = np.array([-math.cos(turned), -math.sin(turned), 0.0])
    aside = (0.008, 0.018, 0.0, 0.008)[count % 4]
    spot = lever + aside * outwards
    begin = np.array([spot[0], spot[1], spot[2] + TIP_TO_END_M + 0.03])
    end = np.array([spot[0], spot[1], spot[2] - 0.03 - 0.008 * min(count, 2)])
    return follow(scene, Track("lever", begin, (end,), down(turned), from_above(scene.tip, begin)))


def _kettle_yaw(scene: Scene, shell: Found, lever: Array) -> float:
    """How the kettle is turned: the wide hand must come down along its shell. The axis lies behind
    the seen side of the shell.
    """
    axes = []
    for camera in ("left", "right"):
        front = shell.middle(camera)
        if front is not None and float(np.linalg.norm((front - lever)[:2])) < 0.20:
            sight = (front - np.array(PLACES[camera])) * (1, 1, 0)
            axes.append(
                front
                + (SHELL_M if scene.brief.locate else 0.0) * sight / float(np.linalg.norm(sight))
            )
    if not axes:
        return 0.0
    inwards = np.mean(axes, axis=0) - lever
    return float(np.clip(math.asin(float(np.clip(inwards[1] / 0.104, -1.0, 1.0))), -0.7, 0.7))


def _spread(shape: Shape) -> list[tuple[float, float]]:
    return [*spots_on(shape, (0.0, -0.45, 0.45)), shape.across(-0.35), shape.across(0.35)]


def _lever(found: Found) -> Array | None:
    """The middle of the lever's upper side: spots that fell off it onto the worktop or the wall
    behind are left out.
    """
    points = [p for p in found.all() if 0.44 < p[2] < 0.62]
    if not points:
        return None
    stack = np.stack(points)
    middle = np.median(stack, axis=0)
    near = stack[np.linalg.norm((stack - middle)[:, :2], axis=1) < 0.05]
    near = near if len(near) else stack
    upper = near[near[:, 2] > middle[2] - 0.02]
    return np.array([*(upper.mean(axis=0)[:2]), float(np.median(upper[:, 2]))])


# Faucet


def swing_handle(scene: Scene) -> Asking:
    """Swing a faucet's handle outwards from its inner side."""
    words = FAUCET.search(scene.page.instruction)
    assert words is not None
    side = 1.0 if words[1].lower() == "left" else -1.0
    caps: dict[str, Shape] = {}
    ends: dict[str, Shape] = {}
    for view in scene.exterior():
        cap, end = controls.faucet_handle(view, words[2].lower())
        caps |= {view.camera: cap} if cap is not None else {}
        ends |= {view.camera: end} if end is not None else {}
    asks: list[Feature] = []
    asks += [scene.feature("cap", {c: _spread(s) for c, s in caps.items()}, 0.56)] if caps else []
    asks += [scene.feature("end", {c: _spread(s) for c, s in ends.items()}, 0.55)] if ends else []
    answers = (yield asks) if asks else {}
    pivot, grip = _handle(answers)
    if pivot is None or grip is None:
        return _swing_on(scene, side) or lost(scene, f"{words[1]} handle")
    if drive := stand(scene, grip, (0.44, 0.56, 0.62), 0.20):
        return Intent("Drive so that the faucet's handle is in front of the hand.", drive=drive)
    return follow(scene, _handle_track(scene, pivot, grip, side))


def _swing_on(scene: Scene, side: float) -> Intent | None:
    """The hand hides the handle that it has come down beside: push outwards as far as a swing is
    long, counted from where it came down.
    """
    spots = [
        np.array(w.target_cm) / 100
        for w in scene.page.since_base_motion()
        if w.target_cm is not None
    ]
    lowered = [k for k in range(1, len(spots)) if spots[k][2] < spots[k - 1][2] - 0.02]
    low = 0.49 < scene.tip[2] < 0.56 and scene.points_down() and scene.page.opening_m < 0.01
    if not low or not lowered or any(p[2] > scene.tip[2] + 0.03 for p in spots[lowered[-1] :]):
        return None
    swung = side * float(scene.tip[1] - spots[lowered[-1]][1])
    if not -0.03 < swung < 0.11:
        return None
    goal = scene.tip + np.array([-0.012, 0.05 * side, 0.0])
    return Intent(
        "The hand hides the handle beside it: push on outwards.",
        tuple(line(scene.tip, goal, "keep", touch=True)),
    )


def _handle(answers: Answers) -> tuple[Array | None, Array | None]:
    """A handle's axis and the place near its end where it is pushed."""
    pivot = _blob(answers.get("cap", Found()))
    end = _blob(answers.get("end", Found()))
    if pivot is None and end is None:
        return None, None
    if pivot is None and end is not None:
        pivot = end + np.array([0.108, 0.0, 0.0])
    assert pivot is not None
    along = np.array([-1.0, 0.0, 0.0])
    if end is not None and 0.05 < float(np.linalg.norm((end - pivot)[:2])) < 0.17:
        along = (end - pivot) * (1, 1, 0)
        along = along / float(np.linalg.norm(along))
    height = float(end[2]) if end is not None else float(pivot[2]) - 0.01
    grip = pivot + LEVER_M * along
    return pivot, np.array([grip[0], grip[1], height])


def _blob(found: Found) -> Array | None:
    """The middle of a small thing: spots that fell off it onto the worktop or the wall behind are
    left out.
    """
    points = [p for p in found.all() if 0.49 < p[2] < 0.62]
    if not points:
        return None
    stack = np.stack(points)
    middle = np.median(stack, axis=0)
    near = stack[np.linalg.norm(stack - middle, axis=1) < 0.05]
    return np.asarray(near.mean(axis=0)) if len(near) else middle


def _handle_track(scene: Scene, pivot: Array, grip: Array, side: float) -> Track:
    count = tries(scene, grip, 0.12)
    along = (grip - pivot) * (1, 1, 0) / LEVER_M
    across = side * np.array([along[1], -along[0], 0.0])  # outwards
    away = FINGER_HALF_M + 0.0115
    height = grip[2] - 0.012
    begin = grip - (away + 0.028 + 0.006 * min(count, 2)) * across
    begin[2] = height
    pushes = []
    for angle in (0.25, 0.55, 0.85):
        turn = -side * angle  # seen from above, the left handle turns clockwise
        c, s = math.cos(turn), math.sin(turn)
        out = np.array([c * along[0] - s * along[1], s * along[0] + c * along[1], 0.0])
        normal = np.array([c * across[0] - s * across[1], s * across[0] + c * across[1], 0.0])
        point = pivot + LEVER_M * out - (away - 0.018) * normal
        pushes.append(np.array([point[0], point[1], height]))
    return Track("handle", begin, tuple(pushes), down(0.0), from_above(scene.tip, begin))


# Stand mixer


def lift_head(scene: Scene) -> Asking:
    """Lift a stand mixer's head by the bar at its nose, from below, along the arc about
    its hinge.
    """
    words = MIXER.search(scene.page.instruction)
    assert words is not None
    seen = {
        v.camera: s
        for v in scene.views.values()
        if (s := controls.mixer_bar(v, words[1].lower())) is not None
    }
    spots = {
        c: [*spots_on(s, (-0.9, -0.45, 0.0, 0.45, 0.9)), s.across(-0.7), s.across(0.7)]
        for c, s in seen.items()
    }
    answers = (yield [scene.feature("bar", spots, BAR_HEIGHT_M)]) if seen else {}
    bar = _bar(answers.get("bar", Found()))
    if bar is None:
        return lost(scene, f"bar of the {words[1]} mixer", "forward")
    if drive := stand(scene, bar, (0.46, 0.54, 0.60), 0.15):
        return Intent("Drive so that the mixer's nose is in front of the hand.", drive=drive)
    return follow(scene, _head_track(scene, bar))


def _bar(found: Found) -> Array | None:
    """The bar's middle: the foremost of the spots at its height; its posts and the head lie behind
    them, the bowl below.
    """
    points = [p for p in found.all() if BAR_HEIGHT_M - 0.06 < p[2] < BAR_HEIGHT_M + 0.30]
    if not points:
        return None
    stack = np.stack(points)
    middle = np.median(stack, axis=0)
    near = stack[np.linalg.norm(stack - middle, axis=1) < 0.10]
    near = near if len(near) else stack
    front = near[near[:, 0] <= float(np.percentile(near[:, 0], 30)) + 0.02]
    return np.array(
        [float(np.median(front[:, 0])), float(near[:, 1].mean()), float(np.median(front[:, 2]))]
    )


def _head_track(scene: Scene, bar: Array) -> Track:
    count = tries(scene, bar, 0.12)
    deeper = (0.012, 0.018, 0.006)[count % 3]
    if (
        float(np.linalg.norm((scene.tip - bar)[[0, 2]])) < 0.07
        and abs(scene.tip[1] - bar[1]) < 0.05
    ):
        bar = np.array([bar[0], scene.tip[1], bar[2]])  # anywhere under the bar is as good
        if scene.page.touching and count % 3 != 0:
            bar = scene.tip + np.array([-deeper, 0.0, 0.022])  # felt: it lies right on the fingers
    height = max(float(bar[2]), BAR_HEIGHT_M)
    now = (
        math.asin(min(0.7, (height - BAR_HEIGHT_M) / HEAD_M))
        if height > BAR_HEIGHT_M + 0.04
        else 0.0
    )

    def under(angle: float, gap: float) -> Array:
        """Where the tip is when it touches the bar from below at an opening, so far below."""
        back = HEAD_M * (math.cos(now) - math.cos(angle)) + 0.028 * (
            math.sin(angle) - math.sin(now)
        )
        rise = HEAD_M * (math.sin(angle) - math.sin(now)) + 0.028 * (
            math.cos(angle) - math.cos(now)
        )
        return np.asarray(bar + np.array([back + deeper, 0.0, rise - 0.022 - gap]))

    begin = under(now, 0.028)
    pushes = [
        under(now + (HEAD_RAD - now) * k / 4, -0.034 - 0.006 * min(count, 3)) for k in range(1, 5)
    ]
    low = np.array([min(scene.tip[0], begin[0] - 0.12), begin[1], begin[2]])
    clear = np.array([low[0], scene.tip[1], scene.tip[2]])
    return Track("bar", begin, tuple(pushes), "forward", (clear, low))
