"""Lift or put a thing on a table before cameras that stand anywhere, and say when it is done: what
the pilot does where a person judges.

With locate_pixel, points are located. By eye alone, a thing is where a line of sight meets the
height that such things have: roughly in the exterior view, well in the wrist view from near above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from capex.pilot import appearance
from capex.pilot.cameras import lower_edge
from capex.pilot.grounding import (
    AGREE_M,
    HELD,
    SPREAD_M,
    Answers,
    Asking,
    Feature,
    Intent,
    Located,
    apart,
    apart_level,
    middle_of,
)
from capex.pilot.prompt import targets_m
from capex.pilot.scene import Scene, line
from capex.pilot.segmentation import Pixel, Region, View, find, union
from capex.pilot.skills import pick_place
from capex.pilot.table_objects import kind, lit, top
from capex.pose import Array

LOOKED_UP_M = 0.13  # of the tip over the table: what is held hangs 3 cm lower
ON_PLATE_M, ON_BLOCK_M = 0.055, 0.035  # a thing's middle so near to that of its support lies on it
BY_EYE_M = 0.01  # more, where the one in front hides a part of the other
CLEAR_M = 0.16  # the hand this far from what it let go hides nothing
TOUCHING_PX = 2.0  # between the boxes around two things that touch
NEAR_M = 0.16  # over a thing's upper end: from here the wrist view places it well
NEAR_ASIDE_M = 0.07
STRIPE = 0.035  # of an image's height: a stripe around a thing is no higher
SAME_M = 0.15  # what two views place farther apart by eye are two things


def tabletop(scene: Scene, words: re.Match[str]) -> Asking:
    """One decision, from whatever state the page and the views show."""
    named = words.groupdict()
    item, place = named.get("item") or named.get("picked") or "", named.get("place") or ""
    if scene.page.holding and not place:
        return _hold_up(scene, item)
    seen = find(scene.outside(), lambda v: region_of(v, item))
    supports = find(scene.outside(), lambda v: region_of(v, place)) if place else {}
    wrist = _from_above(scene, item)
    answers = yield [
        *_item_features(scene, item, place, seen, wrist),
        *_support_features(scene, place, supports),
    ]
    centre = _support(scene, place, answers)
    if scene.page.holding:
        if centre is not None and scene.brief.by_eye and not _sees_past(scene, item, place):
            if pick_place.has_looked(scene, item, place, centre):
                centre[:2] = scene.tip[:2]
            elif beside := pick_place.look_beside(scene, item, place, centre):
                return beside
        return pick_place.carry(scene, item, place, centre)
    if scene.brief.by_eye and _just_let_go(scene):
        why = f"I have let go of the {item}: back off, then look whether it lies on the {place}."
        return Intent(why, pick_place.retreat(scene, scene.tip))
    thing = _thing(scene, item, answers)
    if place and scene.page.released and thing is not None:
        if scene.brief.locate:
            lies = _lies_on(thing, centre, place)
        else:
            up = point(answers["item up"])
            lies = up is not None and _lies_on(up, point(answers["support"]), place, BY_EYE_M)
        if lies:
            return _leave(scene, item, place, thing)
    return pick_place.take(scene, item, thing, wrist, answers)


def _item_features(
    scene: Scene, item: str, place: str, seen: Mapping[str, Region], wrist: Region | None
) -> list[Feature]:
    """What to ask about the thing to be taken; what is held already is where the tip is."""
    spots, height_m = _spots(scene, seen), scene.brief.table_m + kind(item).height_m
    if scene.page.holding:
        return scene.ask(HELD, {} if scene.brief.locate else spots)
    asks = scene.ask("item", spots, height_m - kind(item).height_m / 2)
    if place and scene.brief.by_eye:
        stacked_m = kind(place).height_m + (kind(item).height_m - kind(place).nests_m) / 2
        asks += scene.ask("item up", spots, scene.brief.table_m + stacked_m)
    if wrist is not None and scene.brief.locate:
        return asks + pick_place.wrist_features(scene, wrist)
    return asks + (scene.ask("wrist item", {"wrist": [wrist.centre]}, height_m) if wrist else [])


def _support_features(scene: Scene, place: str, seen: Mapping[str, Region]) -> list[Feature]:
    height_m = scene.brief.table_m + kind(place).height_m
    asks = scene.ask("support", _spots(scene, seen), height_m - kind(place).height_m / 2)
    above = _from_above(scene, place) if place and scene.brief.by_eye else None
    return asks + (scene.ask("wrist support", {"wrist": [above.centre]}, height_m) if above else [])


def _thing(scene: Scene, item: str, answers: Answers) -> Array | None:
    """Where the thing to be taken is; by eye, the wrist view counts as a close look only from near
    above, and where it shows the thing whole.
    """
    thing = point(answers["item"])
    if scene.brief.locate:
        return thing
    top_m = scene.brief.table_m + kind(item).height_m
    above = answers["wrist item"].middle("wrist")
    if thing is not None:
        thing[2] = top_m
        if above is not None and apart_level(above, thing) > SAME_M:
            above = None
    near = scene.tip[2] < top_m + NEAR_M and _whole(scene, item)
    if above is None or not near or apart_level(above, scene.tip) > NEAR_ASIDE_M:
        answers.pop("wrist item", None)
    return thing if above is None else above


def _support(scene: Scene, place: str, answers: Answers) -> Array | None:
    centre = point(answers["support"])
    if scene.brief.locate:
        return centre
    above = answers["wrist support"].middle("wrist")
    if centre is not None:
        centre[2] = scene.brief.table_m + kind(place).height_m
        if above is not None and apart_level(above, centre) > SAME_M:
            above = None
    return centre if above is None else above


def _hold_up(scene: Scene, item: str) -> Intent:
    """Lift what is held, and say so when it is up."""
    held = kind(item)
    height_m = float(scene.tip[2]) - scene.brief.table_m - held.height_m + held.depth_m
    if height_m >= LOOKED_UP_M - 0.02:
        why = f"The fingers hold the {item} {100 * height_m:.0f} cm above the table: done."
        return Intent(why, done=True)
    up = scene.raised(scene.tip, max(pick_place.LIFT_M, LOOKED_UP_M - height_m))
    return Intent(f"I hold the {item}: lift it.", line(scene.tip, up))


def _leave(scene: Scene, item: str, place: str, thing: Array) -> Intent:
    """Back off from what lies in place; once the hand is away from it, say that it is done."""
    if apart(scene.tip, thing) < CLEAR_M:
        return Intent(f"The {item} lies in place; back off.", pick_place.retreat(scene, scene.tip))
    return Intent(f"The {item} lies on the {place} and the hand is away from it: done.", done=True)


def region_of(view: View, noun: str) -> Region | None:
    """The largest region in a noun's colours, with what a stripe cuts off from it."""
    found = appearance.coloured(view, noun)
    apart_px = STRIPE * view.height
    return union([r for r in found if r.beside(found[0], apart_px)]) if found else None


def _from_above(scene: Scene, noun: str) -> Region | None:
    """A thing's upper end in the wrist view."""
    region = pick_place.wrist_item(scene, noun)
    if region is None:
        return None
    return top(scene.views["wrist"], region, noun)


def _whole(scene: Scene, noun: str) -> bool:
    """Whether a thing in the wrist view ends before the image does, and before the palm."""
    seen = pick_place.wrist_item(scene, noun)
    if seen is None:
        return False
    view = scene.views["wrist"]
    parts = union([seen, top(view, seen, noun)])
    return parts.whole(view) and int(parts.rows.max()) < lower_edge(view) - 2


def _sees_past(scene: Scene, item: str, place: str) -> bool:
    """Whether the wrist view shows from near above what a thing is to be put on, whole, beside the
    thing that the fingers hold.
    """
    support, held = _from_above(scene, place), pick_place.wrist_item(scene, item)
    if support is None or not _whole(scene, place):
        return False
    return held is None or not support.beside(held, TOUCHING_PX)


def _spots(scene: Scene, seen: Mapping[str, Region]) -> dict[str, list[Pixel]]:
    """Pixels all over each thing's top; without depth those of all of it, around its middle."""
    parts = {
        c: lit(scene.views[c], region) if scene.brief.locate else region
        for c, region in seen.items()
    }
    return {c: part.spots((0.0, -0.7, 0.7), (-0.7, 0.7)) for c, part in parts.items()}


def point(located: Located) -> Array | None:
    """The middle of what was located: of all views where they agree, else of the first."""
    views = [m for c in located.points if (m := middle_of(located.all(c), SPREAD_M)) is not None]
    if not views:
        return None
    near = [m for m in views if apart_level(m, views[0]) <= AGREE_M]
    return np.asarray(np.mean(near, axis=0))


def _just_let_go(scene: Scene) -> bool:
    """Whether the hand is still where it let go of what it held, and has not been away since."""
    done = scene.page.executed
    last = max((k for k, w in enumerate(done) if w.gripper != "keep"), default=None)
    if last is None or done[last].gripper != "release":
        return False
    let_go, *since = targets_m(done[last:])
    return all(apart(let_go, p) < CLEAR_M for p in (scene.tip, *since))


def _lies_on(thing: Array, centre: Array | None, place: str, more_m: float = 0.0) -> bool:
    """Whether a thing is located on its support; one that hides it lies there, too."""
    within_m = (ON_PLATE_M if "plate" in place else ON_BLOCK_M) + more_m
    return centre is None or apart_level(thing, centre) < within_m
