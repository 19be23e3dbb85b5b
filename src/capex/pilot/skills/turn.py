"""Turn a knob of a row to off: fingers down beside its pointer, then push the pointer up and over
to its stop.

The knobs stand in a row of known spacing; the whole row is seen better than any one of them.
Pointer up is off, to the left is on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.pilot import controls
from capex.pilot.grounding import Answers, Asking, Feature, Intent, heading
from capex.pilot.scene import Scene, down
from capex.pilot.segmentation import Region, View, find
from capex.pilot.skills.base_position import bring_ahead
from capex.pilot.skills.track import Track, follow, from_above, lost, tries
from capex.pose import Array

ORDINALS = ("first", "second", "third", "fourth")
COUNT = len(ORDINALS)
SPACING_M = 0.1333  # four knobs on a stove's front
HEIGHTS_M = (0.35, 0.49)  # knobs of a stove, over the mount
HEIGHT_M = 0.42  # the middle of that
BESIDE_M = 0.077  # from a knob's axis to the fingers before they touch its pointer
AHEAD_M = (0.44, 0.51, 0.57)  # a hand that points down works there: not folded, not stretched
# By try, over the knob's axis and farther beside it: a pointer that was missed is met elsewhere.
STARTS_M = ((0.020, 0.0), (0.014, 0.006), (0.026, -0.006), (0.020, 0.010))
ENDS_M = (0.025, -0.012)  # beside the axis: the pointer is met, and brought past upright
ON_LINE_M = 0.03  # a spot on a knob lies this near to its place in the row


@dataclass(frozen=True)
class KnobRow:
    """Where each knob is, and the level directions to the left along the row and into the front."""

    knobs: Sequence[Array]
    left: Array
    into: Array


def turn_off(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision of turning a knob to off."""
    answers = yield _asks(scene)
    row = _row(answers)
    if row is None:
        return lost(scene, "row of knobs", "down")
    knob = row.knobs[ORDINALS.index(words[1].lower())]
    turned = heading(row.into)
    if drive := bring_ahead(scene, knob, AHEAD_M, 0.15, turned):
        return Intent("Drive so that the knob is in front of the hand.", drive=drive)
    lift, beside = STARTS_M[tries(scene, knob, 0.10) % 4]
    start = knob + (BESIDE_M + beside) * row.left + np.array([0.0, 0.0, lift])
    pushes = [start + (off - BESIDE_M - beside) * row.left for off in ENDS_M]
    way_in = from_above(scene.tip, start, 0.10)
    return follow(scene, Track("knob's pointer", start, pushes, down(turned), way_in))


def _asks(scene: Scene) -> list[Feature]:
    """Knob by knob, from the views that show the whole row: only there can they be counted."""
    rows = find(scene.exterior(), _whole_row)
    spots = [{c: row[k].spots((0.0, -0.4, 0.4)) for c, row in rows.items()} for k in range(COUNT)]
    return [f for k, row in enumerate(spots) for f in scene.ask(f"knob {k}", row, HEIGHT_M)]


def _whole_row(view: View) -> list[Region] | None:
    """The four knobs that lie on one line in the image, left to right; others are something else.
    None when there are more or fewer.
    """
    candidates = controls.stove_knobs(view)
    best: list[Region] = []
    for k, a in enumerate(candidates):
        for b in candidates[k + 1 :]:
            near = [s for s in candidates if _off_line(s, a, b) < 0.5 * s.axes[0] + 3]
            if COUNT >= len(near) > len(best):
                best = near
    return sorted(best, key=lambda s: s.centre[0]) if len(best) == COUNT else None


def _off_line(knob: Region, a: Region, b: Region) -> float:
    """How many pixels a knob's middle is off the line through two others."""
    run = np.array(b.centre) - np.array(a.centre)
    cross = run[0] * (knob.centre[1] - a.centre[1]) - run[1] * (knob.centre[0] - a.centre[0])
    return abs(float(cross)) / max(float(np.linalg.norm(run)), 1e-9)


def _row(answers: Answers) -> KnobRow | None:
    """The row from every spot that was located on it: the line through them, then the comb of four
    that fits best.
    """
    located = [(k, p) for k in range(COUNT) for p in answers[f"knob {k}"].all()]
    low, high = HEIGHTS_M
    named = [(k, p) for k, p in located if low < p[2] < high]
    if len(named) < 3 or len({k for k, _ in named}) < 2:
        return None
    numbers = np.array([k for k, _ in named], dtype=float)
    points = np.stack([p for _, p in named])
    keep = np.ones(len(points), dtype=bool)
    for _ in range(3):
        slope, middle = _comb(numbers[keep], points[keep])
        row = middle + np.outer(numbers - (COUNT - 1) / 2, slope)
        off = np.linalg.norm((points - row)[:, :2], axis=1)
        kept = off < max(ON_LINE_M, 2.0 * float(np.median(off)))
        if kept.sum() < 3 or len(set(numbers[kept])) < 2:
            break
        keep = kept
    slope, middle = _comb(numbers[keep], points[keep])
    left = -slope * (1, 1, 0)
    left = left / float(np.linalg.norm(left))
    into = np.array([left[1], -left[0], 0.0])
    if into[0] < 0.3:  # no front of a stove runs away from the robot
        return None
    height = float(np.median(points[keep][:, 2])) - 0.008  # of the axis: the upper side is seen
    knobs = [middle + ((COUNT - 1) / 2 - k) * SPACING_M * left for k in range(COUNT)]
    return KnobRow([np.array([p[0], p[1], height]) for p in knobs], left, into)


def _comb(numbers: Array, points: Array) -> tuple[Array, Array]:
    """Least squares for points = middle + (number - 1.5) * slope."""
    design = np.stack([numbers - (COUNT - 1) / 2, np.ones_like(numbers)], axis=1)
    solved = np.linalg.lstsq(design, points, rcond=None)[0]
    return np.asarray(solved[0]), np.asarray(solved[1])
