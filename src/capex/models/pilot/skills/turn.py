"""Turn a knob of a row to off: fingers down beside its pointer, then push the pointer up and over
to its stop.

The knobs stand in a row of known spacing; the whole row is seen better than any one of them.
Pointer up is off, to the left is on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capex.models.pilot import controls
from capex.models.pilot.eyes import Pixel, Shape
from capex.models.pilot.ground import Answers, Asking, Feature, Found, Intent
from capex.models.pilot.scene import Scene, down
from capex.models.pilot.skills.track import Track, follow, from_above, lost, stand, tries
from capex.pose import Array

KNOB = re.compile(
    r"turn off the .*burner.*knob is the (first|second|third|fourth) from the left", re.I
)
ORDINALS = ("first", "second", "third", "fourth")
COUNT = len(ORDINALS)
SPACING_M = 0.1333
HEIGHTS_M = (0.35, 0.49)  # knobs of a stove, over the mount
HEIGHT_M = 0.42
BESIDE_M = 0.077  # from a knob's axis to the fingers before they touch its pointer


@dataclass(frozen=True)
class Row:
    """The knobs as a row: where each one is, and the level directions to the left along it and into
    the front.
    """

    knobs: tuple[Array, ...]
    left: Array
    into: Array


def turn_off(scene: Scene) -> Asking:
    """One decision of turning a knob to off."""
    words = KNOB.search(scene.page.instruction)
    assert words is not None
    wanted = ORDINALS.index(words[1].lower())
    asks = _asks(scene)
    answers = (yield asks) if asks else {}
    row = _row(answers)
    if row is None:
        return lost(scene, "row of knobs", "down")
    knob = row.knobs[wanted]
    turned = math.atan2(row.into[1], row.into[0])
    if drive := stand(scene, knob, (0.44, 0.51, 0.57), 0.15, turned):
        return Intent("Drive so that the knob is in front of the hand.", drive=drive)
    count = tries(scene, knob, 0.10)
    lift, beside = ((0.020, 0.0), (0.014, 0.006), (0.026, -0.006), (0.020, 0.010))[count % 4]
    start = knob + (BESIDE_M + beside) * row.left + np.array([0.0, 0.0, lift])
    pushes = tuple(start + (off - BESIDE_M - beside) * row.left for off in (0.025, -0.012))
    return follow(
        scene,
        Track("knob's pointer", start, pushes, down(turned), from_above(scene.tip, start, 0.10)),
    )


def _asks(scene: Scene) -> list[Feature]:
    """Knob by knob, from the views that show the whole row: only there can they be counted."""
    rows = {
        v.camera: sorted(_in_line(controls.stove_knobs(v)), key=lambda s: s.centre[0])
        for v in scene.exterior()
    }
    whole = {c: row for c, row in rows.items() if len(row) == COUNT}
    return [
        scene.feature(f"knob {k}", {c: _spots(row[k]) for c, row in whole.items()}, HEIGHT_M)
        for k in range(COUNT)
        if whole
    ]


def _spots(knob: Shape) -> list[Pixel]:
    return [knob.along(0.0), knob.along(-0.4), knob.along(0.4)]


def _in_line(found: Sequence[Shape]) -> list[Shape]:
    """The four (or fewer) knobs that lie on one line in the image, evenly spaced; others are
    something else.
    """
    best: list[Shape] = list(found[:COUNT]) if len(found) <= 2 else []
    for k, a in enumerate(found):
        for b in found[k + 1 :]:
            run = np.array(b.centre) - np.array(a.centre)
            length = float(np.linalg.norm(run))
            off = [
                abs(
                    float(
                        run[0] * (s.centre[1] - a.centre[1]) - run[1] * (s.centre[0] - a.centre[0])
                    )
                )
                / max(length, 1e-9)
                for s in found
            ]
            near = [s for s, o in zip(found, off, strict=True) if o < 0.5 * s.axes[0] + 3]
            if COUNT >= len(near) > len(best):
                best = near
    return best


def _row(answers: Answers) -> Row | None:
    """The row from every spot that was located on it: the line through them, then the comb of four
    that fits best.
    """
    named = [
        (k, p)
        for k in range(COUNT)
        for p in answers.get(f"knob {k}", Found()).all()
        if HEIGHTS_M[0] < p[2] < HEIGHTS_M[1]
    ]
    if len(named) < 3 or len({k for k, _ in named}) < 2:
        return None
    numbers = np.array([k for k, _ in named], dtype=float)
    points = np.stack([p for _, p in named])
    keep = np.ones(len(points), dtype=bool)
    for _ in range(3):
        slope, middle = _comb(numbers[keep], points[keep])
        off = np.linalg.norm(
            (points - (middle + np.outer(numbers - (COUNT - 1) / 2, slope)))[:, :2], axis=1
        )
        kept = off < max(0.03, 2.0 * float(np.median(off)))
        if kept.sum() < 3 or len(set(numbers[kept])) < 2:
            break
        keep = kept
    slope, middle = _comb(numbers[keep], points[keep])
    left = -slope * (1, 1, 0)
    left = left / float(np.linalg.norm(left))
    into = np.array([left[1], -left[0], 0.0])
    if into[0] < 0.3:
        return None
    height = float(np.median(points[keep][:, 2])) - 0.008
    knobs = [middle + ((COUNT - 1) / 2 - k) * SPACING_M * left for k in range(COUNT)]
    return Row(tuple(np.array([p[0], p[1], height]) for p in knobs), left, into)


def _comb(numbers: Array, points: Array) -> tuple[Array, Array]:
    """Least squares for points = middle + (number - 1.5) * slope."""
    design = np.stack([numbers - (COUNT - 1) / 2, np.ones_like(numbers)], axis=1)
    solved = np.linalg.lstsq(design, points, rcond=None)[0]
    return np.asarray(solved[0]), np.asarray(solved[1])
