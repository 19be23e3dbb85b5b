"""How an apprentice's biases change a plan, and how the request corrects them.

Four things correct them: the executor's reports on earlier acts, the reliability skeleton,
references of earlier successes, and located points. Each works from the request's values alone, for
this decision only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from capex.models.prompt_values import ReportedWaypoint
from capex.pilot.biases import (
    LIFT_MAX_M,
    Biases,
    Touch,
    across,
    afar,
    approach,
    mirrored,
    moved,
    touch_of,
)
from capex.pilot.grounding import Intent, Move, apart
from capex.pilot.prompt import Brief, Page, closed_on_nothing, targets_m
from capex.pilot.scene import Scene
from capex.plan import WaypointStatus, orientation_matrix
from capex.pose import Array

# Deeper or less deep for each report that says so.
STEPS_M: Mapping[Touch, float] = {"grasp": 0.012, "release": 0.012, "push": 0.02}
STEP_M = STEPS_M["grasp"]
STEPS_MAX = 6
NEAR_M = 0.05  # a report this near to a goal is about it
OFFSET_M = 0.12  # a waypoint farther from any located point says nothing about depth
BESIDE_M = 0.16  # an act that ended this near to a push tried it, perhaps to the other side
AIM_SHARE = 0.5  # the nearest located point may be any of a part
LAST_M = 0.16  # from where a part is come to in a straight line
CORRECTED_M = 0.12
STOPS = (
    WaypointStatus.STALLED,
    WaypointStatus.CONTACT,
    WaypointStatus.TIMEOUT,
    WaypointStatus.GUARD_STOP,
)
FELT = (WaypointStatus.FINGER_CONTACT, WaypointStatus.TERMINAL, *STOPS)
SIDED = re.compile(r"\b(?:left|right|middle)\b", re.I)  # a reference may be about the other side


@dataclass(frozen=True)
class Feedback:
    """The scene of a decision and its located points."""

    scene: Scene
    located: Sequence[Array]  # every point that the request's answers hold


def looks_again(biases: Biases, page: Page, brief: Brief) -> Biases:
    """Biases that look again where a report or the skeleton gives reason to."""
    last = page.acts[-1].waypoints if page.acts else ()
    # Fingers that shut at the beginning of a plan were meant to.
    warned = _warning(page) or any(map(closed_on_nothing, last[1:]))
    advised = "observe after each waypoint" in brief.advice.values()
    doubted = advised or brief.failed > brief.succeeded
    return replace(biases, looks=biases.looks or warned or doubted or _stuck(page))


def _warning(page: Page) -> bool:
    """Whether something stopped the last act, or part of it was deferred."""
    last = page.acts[-1].waypoints if page.acts else ()
    return any(w.status in (*STOPS, WaypointStatus.DEFERRED) and not _drove_less(w) for w in last)


def _drove_less(waypoint: ReportedWaypoint) -> bool:
    """Whether a base motion only ended early: nothing was in its way."""
    return waypoint.base and waypoint.status in (WaypointStatus.STALLED, WaypointStatus.TIMEOUT)


def _acts(page: Page) -> int:
    """How many acts there have been."""
    return page.acts[-1].number if page.acts else 0


def _stuck(page: Page) -> bool:
    """Whether the last two acts ended at the same place."""
    ends = [targets_m(act.waypoints)[-1:] for act in page.acts[-2:]]
    return len(ends) == 2 and all(ends) and apart(ends[0][0], ends[1][0]) < STEP_M


def bend(intent: Intent, scene: Scene, located: Sequence[Array]) -> Intent:
    """An intent as these biases carry it out, corrected by what the request says."""
    biases = scene.biases
    if 0 < biases.patience < _acts(scene.page) and scene.brief.may_end and not scene.brief.done:
        return Intent("I did what was asked and see nothing left to do: done.", done=True)
    if not biases.sight_m or not intent.moves:
        return intent
    moves: list[Move] = []
    before, held = scene.tip, scene.page.holding
    touched: Array | None = None  # where the first touch of the plan begins
    wrong, lift_m, feedback = (
        _turns_wrong(intent, scene),
        _lift(intent, scene),
        Feedback(scene, located),
    )
    planned = intent.moves
    if biases.haste_m and not _warning(scene.page):
        planned = _without_detours(intent.moves)
    for k, move in enumerate(planned):
        place, touch = move.target.position_m, touch_of(move)
        if place is None:
            moves.append(move)
            continue
        goal = np.array(place)
        way = approach(before, goal, scene.page.rotation[:, 2])
        bent = goal
        side = across(orientation_matrix(move.target.orientation, scene.page.rotation)[:, 2])
        if touch == "push" and wrong:
            bent = mirrored(goal, before if touched is None else touched, side)
        if touch:
            bent = bent + _beside(touch, bent, way, side, feedback)
            if touched is None:
                touched = before if touch == "push" else goal
        elif held and move.target.gripper == "keep":
            bent = goal + np.array([0.0, 0.0, lift_m])
        elif _leads(planned[k:], goal):
            bent = goal + _aim(biases.aim_m, scene) * side
        moves.append(moved(move, bent))
        held = held or touch == "grasp"
        held = held and touch != "release"
        before = goal
    return replace(intent, moves=moves)


def _without_detours(moves: Sequence[Move]) -> list[Move]:
    """Of motions that only lead on, each time the last."""
    free = [m.target.gripper == "keep" and not m.touch for m in moves]
    later = [*free[1:], False]
    return [m for m, a, b in zip(moves, free, later, strict=True) if not (a and b)]


def _lift(intent: Intent, scene: Scene) -> float:
    """How much higher than the pilot it carries: the bias, pulled to the heights of references,
    and over what stopped it.
    """
    page, lift_m = scene.page, scene.biases.lift_m
    heights = [top for r in scene.brief.references if (top := _carried_at(r)) is not None]
    held = takewhile(lambda m: m.target.gripper not in ("release", "open"), intent.moves)
    planned = [m.target.position_m[2] for m in held if m.target.position_m]
    if heights and planned and page.holding:
        lift_m += scene.biases.trust * (float(np.median(heights)) - max(planned) - lift_m)
    stops = sum(w.status in STOPS and w.gripper == "keep" for w in page.since_base_motion())
    return float(np.clip(lift_m + STEP_M * min(stops, 3), -LIFT_MAX_M, LIFT_MAX_M))


def _carried_at(reference: Sequence[ReportedWaypoint]) -> float | None:
    """How high a reference held what it carried, in metres over the base."""
    closes = [k for k, w in enumerate(reference) if w.gripper in ("close", "reclose")]
    opens = [k for k, w in enumerate(reference) if w.gripper in ("release", "open")]
    last = max(opens, default=len(reference))
    first = max((k for k in closes if k < last), default=last)
    heights = [float(p[2]) for p in targets_m(reference[first + 1 : last])]
    return max(heights, default=None)


def _beside(touch: Touch, goal: Array, way: Array, side: Array, feedback: Feedback) -> Array:
    """How far from the pilot's goal a touch goes, along its way and to its side: by bias, pulled
    to what references show, then changed by the reports and the skeleton.
    """
    scene = feedback.scene
    biases = scene.biases
    depth_m, aim_m = biases.depth_m[touch], biases.aim_m
    shown = _shown(touch, goal + depth_m * way + aim_m * side, feedback)
    if shown is None:
        depth_m += _warned(touch, scene.brief)
    else:
        depth_m += biases.trust * float(shown @ way)
        aim_m += AIM_SHARE * biases.trust * float(shown @ side)
    depth_m += biases.haste_m * afar(goal, scene.tip)
    steps = _reported(touch, goal + depth_m * way, way, scene.page)
    depth_m = float(
        np.clip(depth_m + biases.response * STEPS_M[touch] * steps, -CORRECTED_M, CORRECTED_M)
    )
    return np.asarray(depth_m * way + _aim(aim_m, scene) * side)


def _leads(moves: Sequence[Move], goal: Array) -> bool:
    """Whether a goal is on the last way to the next touch."""
    touches = [m.target.position_m for m in moves if touch_of(m) not in (None, "release")]
    return bool(touches) and touches[0] is not None and apart(np.array(touches[0]), goal) < LAST_M


def _aim(aim_m: float, scene: Scene) -> float:
    """How far beside its best place a part is touched, nearer with every report of a miss."""
    missed = sum(w.status in STOPS or closed_on_nothing(w) for w in scene.page.since_base_motion())
    return float(aim_m * (1 - scene.biases.response / 2) ** missed)


def _shown(touch: Touch, goal: Array, feedback: Feedback) -> Array | None:
    """How far from a goal the references went, both seen from their nearest located point."""
    near = min(feedback.located, key=lambda p: apart(p, goal), default=None)
    if near is None or apart(near, goal) > OFFSET_M:
        return None
    references = feedback.scene.brief.references
    offsets = [o for r in references if (o := _reference_offset(touch, r)) is not None]
    return np.asarray(np.median(offsets, axis=0) - (goal - near)) if offsets else None


def _reference_offset(touch: Touch, reference: Sequence[ReportedWaypoint]) -> Array | None:
    """Where the last touch of a kind was, from its nearest located point."""
    words = {"grasp": ("close", "reclose"), "release": ("release",), "push": ("keep",)}[touch]
    rows = [w for w in reference if w.gripper in words and w.offset_cm is not None]
    if touch == "push":
        rows = [w for w in rows if w.status in FELT]
    offsets = [np.array(w.offset_cm) / 100 for w in rows]
    near = [o for o in offsets if float(np.linalg.norm(o)) <= OFFSET_M]
    return near[-1] if near else None


def _warned(touch: Touch, brief: Brief) -> float:
    """Less deep where the skeleton says that failures were stopped; deeper where they were not and
    nothing has succeeded.
    """
    word = {"grasp": "close", "release": "release", "push": "keep"}[touch]
    stops = [n for (w, _), n in brief.stops.items() if w == word]
    if stops:
        return -STEP_M * min(2.0, max(stops))
    return STEP_M * min(2, brief.failed) if brief.failed and not brief.succeeded else 0.0


def _reported(touch: Touch, goal: Array, way: Array, page: Page) -> float:
    """Steps deeper (or less deep) that the page's reports about a goal ask for: what was reached
    and not felt was not deep enough, what was stopped was too deep.
    """
    steps = 0.0
    for waypoint in page.since_base_motion():
        targets = targets_m([waypoint])
        off = targets[0] - goal if targets else np.full(3, np.inf)
        along = float(off @ way) if targets else np.inf
        if not -NEAR_M < along < STEPS_MAX * STEP_M or apart(off, along * way) > NEAR_M:
            continue
        if touch == "grasp":
            steps += closed_on_nothing(waypoint)
        elif touch == "push" and waypoint.gripper == "keep" and along > -NEAR_M / 2:
            steps += waypoint.status == WaypointStatus.REACHED
        if waypoint.status in STOPS and touch != "push":
            steps -= 1
    return float(np.clip(steps, -STEPS_MAX, STEPS_MAX))


def _turns_wrong(intent: Intent, scene: Scene) -> bool:
    """Whether what is touched is taken to the wrong side, by bias, by what references show, and by
    how often the page says that it did not move.
    """
    biases, page = scene.biases, scene.page
    shown = None if SIDED.search(page.instruction) else _side_shown(intent, scene.brief)
    if shown is not None:
        return not shown
    vain = sum(w.status in STOPS for w in page.since_base_motion()) + _unfelt(intent, page)
    flips = vain // biases.doubt if biases.doubt else 0
    return biases.turns_wrong != bool(flips % 2)


def _unfelt(intent: Intent, page: Page) -> int:
    """How many acts on the page ended beside where an intent's touches end, and felt nothing."""
    ends = [m.target.position_m for m in intent.moves if touch_of(m) == "push"]
    if not ends or ends[-1] is None:
        return 0
    goal = np.array(ends[-1])
    count = 0
    for act in page.acts:
        last = targets_m(act.waypoints[-1:])
        felt = any(w.status != WaypointStatus.REACHED for w in act.waypoints)
        count += bool(last) and not felt and apart(last[0], goal) < BESIDE_M
    return count


def _side_shown(intent: Intent, brief: Brief) -> bool | None:
    """Whether the last act of a reference went to the side that an intent goes to; None where
    either goes straight.
    """
    own = _sideways([np.array(m.target.position_m) for m in intent.moves if m.target.position_m])
    for reference in brief.references:
        theirs = _sideways(targets_m(reference[-8:]))
        if own and theirs:
            return (own > 0) == (theirs > 0)
    return None


def _sideways(points: Sequence[Array]) -> float:
    """How far left the last of some points is of the first; 0 where that is next to nothing."""
    left = float(points[-1][1] - points[0][1]) if len(points) > 1 else 0.0
    return left if abs(left) > 0.04 else 0.0
