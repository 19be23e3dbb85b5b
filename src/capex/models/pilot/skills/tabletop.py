"""Lift or put a thing on a table before cameras that stand anywhere, and say when it is done: what
the pilot does where a person judges.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.eyes import Region, View, find
from capex.models.pilot.ground import (
    AGREE_M,
    HELD,
    SPREAD_M,
    Asking,
    Intent,
    Located,
    apart,
    apart_level,
    middle_of,
)
from capex.models.pilot.scene import Scene, line
from capex.models.pilot.skills import pick_place
from capex.plan import raised
from capex.pose import Array

LIFT = re.compile(r"(?:pick up|lift) the (?P<item>.+?)(?: and (?:hold|lift) it(?: up)?)?\.?$", re.I)
PUT = re.compile(
    r"(?:pick up the (?P<picked>.+?) and )?put (?:the (?P<item>.+?)|it) (?:on|onto) the"
    r" (?P<place>.+?)\.?$",
    re.I,
)
LOOKED_UP_M = 0.13  # of the tip over the table: what is held hangs 3 cm lower
THICK_M = 0.045  # blocks are about as high; assumed where there is no depth
FLAT_M = 0.012  # and plates
ON_PLATE_M, ON_BLOCK_M = 0.055, 0.035  # a thing's middle so near to that of its support lies on it
CLEAR_M = 0.16  # the hand this far from what it let go hides nothing
TOUCHING_PX = 2.0  # between the boxes around two things that touch
TOP_SHARE = 0.8  # of the brightest: light from above makes a thing's top its brightest side


def tabletop(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision, from whatever state the page and the views show."""
    named = words.groupdict()
    item, place = named.get("item") or named.get("picked") or "", named.get("place") or ""
    if scene.page.holding and not place:
        return _hold_up(scene, item)
    table_m, rests_m = scene.brief.table_m, _thickness(place)
    seen = find(scene.outside(), lambda v: _region(v, item))
    supports = find(scene.outside(), lambda v: _region(v, place)) if place else {}
    spots = _spots(scene, seen)
    if scene.page.holding:
        asks = scene.ask(HELD, spots if not scene.brief.locate else {})
    else:
        asks = scene.ask("item", spots, table_m + THICK_M / 2)
    asks += scene.ask("support", _spots(scene, supports), table_m + rests_m / 2)
    wrist = pick_place.wrist_item(scene, item)
    if wrist is not None:
        wrist = _top(scene.views["wrist"], wrist)
        if scene.brief.locate and not scene.page.holding:
            asks += pick_place.wrist_features(scene, wrist)
    answers = yield asks
    centre = _point(answers["support"])
    if centre is not None and not scene.brief.locate:
        centre[2] = table_m + rests_m
    if scene.page.holding:
        return pick_place.carry(scene, item, place, centre)
    thing = _point(answers["item"])
    if thing is not None and not scene.brief.locate:
        thing[2] = table_m + THICK_M
    if place and scene.page.released and thing is not None:
        located = scene.brief.locate
        if _lies_on(thing, centre, place) if located else _seems_on(seen, supports):
            return _leave(scene, item, place, thing)
    return pick_place.take(scene, item, thing, wrist, answers)


def _hold_up(scene: Scene, item: str) -> Intent:
    """Lift what is held, and say so when it is up."""
    height_m = float(scene.tip[2]) - scene.brief.table_m
    if height_m >= LOOKED_UP_M:
        why = f"The fingers hold the {item} {100 * height_m:.0f} cm above the table: done."
        return Intent(why, done=True)
    up = raised(scene.tip, max(pick_place.LIFT_M, LOOKED_UP_M - height_m + 0.02))
    return Intent(f"I hold the {item}: lift it.", line(scene.tip, up))


def _leave(scene: Scene, item: str, place: str, thing: Array) -> Intent:
    """Back off from what lies in place; once the hand is away from it, say that it is done."""
    if apart(scene.tip, thing) < CLEAR_M:
        return Intent(f"The {item} lies in place; back off.", pick_place.retreat(scene.tip))
    return Intent(f"The {item} lies on the {place} and the hand is away from it: done.", done=True)


def _region(view: View, noun: str) -> Region | None:
    """The largest region in a noun's colours."""
    found = looks.coloured(view, noun)
    return found[0] if found else None


def _top(view: View, region: Region) -> Region:
    """The part of a thing that the light from above falls on; all of it where that is little."""
    value = view.value[region.rows, region.columns]
    bright = value > TOP_SHARE * float(np.quantile(value, 0.95))
    if float(bright.mean()) < 0.2:
        return region
    return Region(region.rows[bright], region.columns[bright])


def _spots(scene: Scene, seen: Mapping[str, Region]) -> dict[str, list[tuple[float, float]]]:
    """Pixels all over each thing's top; without depth those of all of it, around its middle."""
    parts = {
        c: _top(scene.views[c], region) if scene.brief.locate else region
        for c, region in seen.items()
    }
    return {c: part.spots((0.0, -0.7, 0.7), (-0.7, 0.7)) for c, part in parts.items()}


def _thickness(place: str) -> float:
    return FLAT_M if "plate" in place else THICK_M


def _point(located: Located) -> Array | None:
    """The middle of what was located: of all views where they agree, else of the first."""
    views = [m for c in located.points if (m := middle_of(located.all(c), SPREAD_M)) is not None]
    if not views:
        return None
    near = [m for m in views if apart_level(m, views[0]) <= AGREE_M]
    return np.asarray(np.mean(near, axis=0))


def _lies_on(thing: Array, centre: Array | None, place: str) -> bool:
    """Whether a thing is located on its support; one that hides it lies there, too."""
    within_m = ON_PLATE_M if "plate" in place else ON_BLOCK_M
    return centre is None or apart_level(thing, centre) < within_m


def _seems_on(seen: Mapping[str, Region], supports: Mapping[str, Region]) -> bool:
    """Whether a thing touches its support in every picture that shows both: all there is without
    depth, and wrong where it stands before or behind it.
    """
    both = [c for c in seen if c in supports]
    return all(seen[c].beside(supports[c], TOUCHING_PX) for c in both)
