"""Press a button: closed fingers square in front of it, push until something is felt, draw back;
another spot if nothing came of it.
"""

from __future__ import annotations

import re

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.eyes import Colour, Shape, View, shapes
from capex.models.pilot.ground import Asking, Found, Intent, Move
from capex.models.pilot.page import Told
from capex.models.pilot.scene import Scene, line, path, spots_on
from capex.plan import at
from capex.pose import Array

PRESS = re.compile(r"(?:press|push) the (?:(\w+) )?button", re.I)
BUTTONS = {"start": Colour(128, 0.74, 6, 0.07, 0.2), "stop": Colour(2, 0.82, 5, 0.06, 0.2)}
BEFORE_M = 0.07
BACK_M = 0.20
TIP_TO_END_M = 0.0125
DEPTH_M = 0.016  # beyond the surface
# Where to press next: left, up.
ASIDE_M = ((0.0, 0.0), (0.0, -0.012), (0.02, 0.0), (-0.02, 0.0), (0.0, 0.012))


def press(scene: Scene) -> Asking:
    """One decision of pressing a button."""
    words = PRESS.search(scene.page.instruction)
    assert words is not None
    seen = {
        v.camera: s
        for v in scene.views.values()
        if (s := _button(v, words[1] or "start")) is not None
    }
    answers = (
        (
            yield [
                scene.feature(
                    "button", {c: spots_on(s, (0.0, -0.5, 0.5)) for c, s in seen.items()}, 0.66
                )
            ]
        )
        if seen
        else {}
    )
    found = answers.get("button", Found())
    point = found.agreed()
    if point is None:
        point = found.middle("wrist")
    if point is None:
        return _blind(scene)
    pushes, drawn_back = _pushes(scene.page.since_base_motion(), point)
    tip = scene.tip
    if pushes and not drawn_back:
        return Intent(
            "The button was pressed: draw back and see.",
            tuple(line(tip, _back(tip, point), "forward")),
        )
    left, up = ASIDE_M[pushes % len(ASIDE_M)]
    goal = point + np.array(
        [DEPTH_M - TIP_TO_END_M + _learned(scene) + 0.004 * min(pushes, 3), left, up]
    )
    before = np.array([point[0] - BEFORE_M, goal[1], goal[2]])
    moves: list[Move] = []
    if scene.page.opening_m > 0.01:
        moves.append(Move(at(tip, "forward", "close")))
    elif not scene.forward():
        moves.append(Move(at(tip, "forward")))
    square = float(np.linalg.norm((tip - before)[1:])) < 0.015 and tip[0] > before[0] - 0.02
    if not square:
        aside = np.array([min(tip[0], before[0]), before[1], before[2]])
        moves += (
            path(tip, [aside, before], "forward")
            if float(np.linalg.norm(aside - before)) > 0.02
            else path(tip, [before], "forward")
        )
        tip = before
    moves += line(tip, goal, "forward", touch=True)
    return Intent(
        f"Closed fingers in front of the {words[1] or ''} button, then push it in.", tuple(moves)
    )


def _button(view: View, word: str) -> Shape | None:
    """The button of a colour with its partner of the other colour next to it: a panel, not a can on
    the worktop.
    """
    zone = ~looks.hand_zone(view)
    own = BUTTONS.get(word, BUTTONS["start"])
    other = next(c for c in BUTTONS.values() if c != own)
    partners = shapes(view, view.like(other) & zone, 0.0001, 0.05)
    for shape in shapes(view, view.like(own) & zone, 0.0001, 0.05):
        if any(
            shape.beside(p, 0.4 * shape.axes[0] + 3) and 0.2 < p.area / shape.area < 5
            for p in partners
        ):
            return shape
    return None


def _pushes(told: list[Told], point: Array) -> tuple[int, bool]:
    """How often the page shows a push at a point, and whether the hand was drawn back after the
    last one.
    """
    count, back = 0, True
    for waypoint in told:
        if waypoint.target_cm is None:
            continue
        target = np.array(waypoint.target_cm) / 100
        near = float(np.linalg.norm((target - point)[1:])) < 0.05
        if (
            near
            and target[0] > point[0] - TIP_TO_END_M - 0.012
            and waypoint.status in ("reached", "finger contact", "stalled", "timeout")
        ):
            count, back = count + 1, False
        elif target[0] < point[0] - BACK_M + 0.05:
            back = True
    return count, back


def _learned(scene: Scene) -> float:
    """How much deeper or shallower than usual the push of an earlier success went."""
    depths = []
    for reference in scene.brief.references:
        pushes = [
            w.offset_cm[0] / 100
            for w in reference
            if w.offset_cm is not None and max(map(abs, w.offset_cm)) <= 4
        ]
        if pushes:
            depths.append(max(pushes) - (DEPTH_M - TIP_TO_END_M))
    return float(np.clip(np.median(depths), -0.01, 0.02)) if depths else 0.0


def _back(tip: Array, point: Array) -> Array:
    return np.array([min(tip[0], point[0]) - BACK_M, tip[1], tip[2]])


def _blind(scene: Scene) -> Intent:
    """No view shows the button: finish what was deferred if anything was, else draw back."""
    last = scene.page.acts[-1].waypoints if scene.page.acts else ()
    deferred = [w for w in last if w.status == "deferred" and w.target_cm is not None]
    if deferred:
        goal = np.array(deferred[0].target_cm) / 100
        return Intent(
            "The hand hides the button: go on as planned.",
            tuple(line(scene.tip, goal, "forward", touch=True)),
        )
    goal = scene.tip + np.array([-0.09, 0.0, 0.0])
    return Intent(
        "I do not see the button: draw back and look.", tuple(line(scene.tip, goal, "forward"))
    )
