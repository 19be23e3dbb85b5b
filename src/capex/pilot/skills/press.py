"""Press a button: closed fingers square in front of it, push until something is felt, draw back;
another spot if nothing came of it.
"""

from __future__ import annotations

import re

import numpy as np

from capex.pilot import appearance
from capex.pilot.grounding import Asking, Intent, Move, apart
from capex.pilot.scene import BACK, FINGER_END_M, Scene, line, path
from capex.pilot.segmentation import Colour, Region, View, find, regions
from capex.pilot.skills.track import STOPPED
from capex.plan import WaypointStatus, at
from capex.pose import Array

BUTTONS = {"start": Colour(128, 0.74, 6, 0.07, 0.2), "stop": Colour(2, 0.82, 5, 0.06, 0.2)}
BEFORE_M = 0.07  # the fingers line up this far before a button, and go straight on from there
BACK_M = 0.20  # drawn back so far, the hand hides nothing of the panel
DEPTH_M = 0.016  # beyond the surface
# Where to press next: left, up.
ASIDE_M = ((0.0, 0.0), (0.0, -0.012), (0.02, 0.0), (-0.02, 0.0), (0.0, 0.012))


def press(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of pressing a button."""
    seen = find(scene.views.values(), lambda v: _button(v, words[1] or "start"))
    answers = yield scene.ask("button", {c: s.spots((0, -0.5, 0.5)) for c, s in seen.items()}, 0.66)
    point = answers["button"].best()
    if point is None:
        return _blind(scene)
    pushes, drawn_back = _pushes(scene, point)
    tip = scene.tip
    if pushes and not drawn_back:
        back = np.array([min(tip[0], point[0]) - BACK_M, tip[1], tip[2]])
        return Intent("The button was pressed: draw back and see.", line(tip, back, "forward"))
    left, up = ASIDE_M[pushes % len(ASIDE_M)]
    depth = DEPTH_M - FINGER_END_M + _learned(scene) + 0.004 * min(pushes, 3)
    goal = point + np.array([depth, left, up])
    before = np.array([point[0] - BEFORE_M, goal[1], goal[2]])
    moves = scene.shut("forward")
    if not moves and not scene.forward():
        moves = [Move(at(tip, "forward"))]
    if apart(tip[1:], before[1:]) >= 0.015 or tip[0] <= before[0] - 0.02:
        aside = np.array([min(tip[0], before[0]), before[1], before[2]])
        moves += path(tip, [aside, before] if apart(aside, before) > 0.02 else [before], "forward")
        tip = before
    why = f"Closed fingers in front of the {words[1] or ''} button, then push it in."
    return Intent(why, [*moves, *line(tip, goal, "forward", touch=True)])


def _button(view: View, word: str) -> Region | None:
    """The button of a colour with its partner of the other colour next to it: a panel, not a can on
    the worktop.
    """
    zone = ~appearance.hand_zone(view)
    own = BUTTONS.get(word, BUTTONS["start"])
    other = next(c for c in BUTTONS.values() if c != own)
    partners = regions(view.like(other) & zone, 0.0001, 0.05)
    for button in regions(view.like(own) & zone, 0.0001, 0.05):
        alike = [p for p in partners if 0.2 < p.area / button.area < 5]
        if any(button.beside(p, 0.4 * button.axes[0] + 3) for p in alike):
            return button
    return None


def _pushes(scene: Scene, point: Array) -> tuple[int, bool]:
    """How often the page shows a push at a point, and whether the hand was drawn back after the
    last one.
    """
    count, back = 0, True
    sent = [w for w in scene.page.since_base_motion() if w.target_cm is not None]
    for waypoint, target in zip(sent, scene.page.goals_m(), strict=True):
        at_it = apart(target[1:], point[1:]) < 0.05 and target[0] > point[0] - FINGER_END_M - 0.012
        if at_it and waypoint.status in (WaypointStatus.REACHED, *STOPPED):
            count, back = count + 1, False
        elif target[0] < point[0] - BACK_M + 0.05:
            back = True
    return count, back


def _learned(scene: Scene) -> float:
    """How much deeper or shallower than usual the push of an earlier success went."""
    depths = []
    for reference in scene.brief.references:
        offsets = [w.offset_cm for w in reference if w.offset_cm is not None]
        pushes = [o[0] / 100 for o in offsets if max(map(abs, o)) <= 4]
        if pushes:
            depths.append(max(pushes) - (DEPTH_M - FINGER_END_M))
    return float(np.clip(np.median(depths), -0.01, 0.02)) if depths else 0.0


def _blind(scene: Scene) -> Intent:
    """No view shows the button: finish what was deferred if anything was, else draw back."""
    tip = scene.tip
    if deferred := scene.page.deferred_m():
        why = "The hand hides the button: go on as planned."
        return Intent(why, line(tip, deferred[0], "forward", touch=True))
    why = "I do not see the button: draw back and look."
    return Intent(why, line(tip, tip + BACK, "forward"))
