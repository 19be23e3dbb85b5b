"""What controls look like: a kettle's lever, a faucet's handles, a mixer's bar, a stove's knobs."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import ndimage

from capex.pilot.appearance import hand_zone
from capex.pilot.segmentation import Colour, Region, View, regions

LEVER = Colour(1.7, 0.91, 2.5, 0.03, 0.25)


KETTLES: dict[str, Colour] = {
    "green": Colour(141, 0.51, 5, 0.06, 0.12),
    "blue": Colour(218, 0.745, 5, 0.05, 0.15),
    "white": Colour(60, 0.022, 6, 0.014, 0.40),
    "black": Colour(240, 0.08, 8, 0.07, 0.03, 0.20),
}


FAUCET_CAPS = {
    "red": Colour(1.7, 0.885, 3.0, 0.035, 0.25),
    "blue": Colour(225, 0.855, 3.0, 0.035, 0.25),
}


def kettle_lever(view: View, colour: str) -> tuple[Region, Region] | None:
    """The red switch lever at the foot of the kettle of a colour, and its shell: the colour right
    above a lever says whose it is.
    """
    best: tuple[Region, Region] | None = None
    bodies = {name: view.like(c) for name, c in KETTLES.items()}
    for lever in regions(view.like(LEVER) & ~hand_zone(view), 0.00012, 0.05, close=1):
        size = max(6, round(1.6 * lever.axes[0]))
        above = 2 if view.camera == "wrist" else 3
        top, start = (
            max(0, int(lever.rows.min()) - above * size),
            max(0, int(lever.columns.min()) - size),
        )
        box = (
            slice(top, int(lever.rows.max()) + 1),
            slice(start, int(lever.columns.max()) + 1 + size),
        )
        shares = {name: float(mask[box].mean()) for name, mask in bodies.items()}
        shares["black"] *= 0.45  # every kettle has a black foot, lid and handle
        whose = max(shares, key=lambda name: shares[name])
        if whose == colour and shares[whose] > 0.02 and (best is None or lever.area > best[0].area):
            window = np.zeros(view.value.shape, dtype=bool)
            window[box] = bodies[colour][box]
            best = (lever, regions(window, 0.0, 1.0)[0])
    return best


def faucet_handle(view: View, colour: str) -> tuple[Region, Region] | None:
    """A faucet handle's coloured cap, on its axis, and the coloured end of its lever: two blobs
    side by side, the cap is the upper one.
    """
    blobs = regions(view.like(FAUCET_CAPS[colour]), 0.00004, 0.004)
    for a, b in itertools.combinations([s for s in blobs if s.elongation < 6], 2):
        if (
            float(np.hypot(a.centre[0] - b.centre[0], a.centre[1] - b.centre[1]))
            < 0.10 * view.height
        ):
            return (a, b) if a.centre[1] < b.centre[1] else (b, a)
    return None


MIXERS: dict[str, Colour] = {
    "red": Colour(0, 0.885, 1.2, 0.03, 0.20),
    "blue": Colour(203, 0.51, 4, 0.04, 0.20),
    "yellow": Colour(46.5, 0.755, 4, 0.05, 0.25),
    "green": Colour(109, 0.378, 4, 0.04, 0.20),
    "white": Colour(48, 0.052, 6, 0.015, 0.35),
}


def mixer_bar(view: View, colour: str) -> Region | None:
    """The bar at the nose of the stand mixer of a colour: bright metal over a bowl, with enamel of
    that colour above it.
    """
    bright = view.toned(219, 18, (0.008, 0.055), 0.50, 1.01) & ~hand_zone(view)
    bright = ndimage.binary_opening(bright, np.ones((3, 3), dtype=bool))  # without the thin whisk
    bowl = view.toned(220, 9, (0.052, 0.080), 0.22, 0.66)
    bodies = {name: view.like(c) for name, c in MIXERS.items()}
    best: tuple[float, Region] | None = None
    for bar in regions(bright, 0.0003, 0.02):
        length = round(2 * bar.axes[0])
        top, bottom = int(bar.rows.min()), int(bar.rows.max()) + 1
        columns = slice(max(0, int(bar.columns.min())), int(bar.columns.max()) + 1)
        shares = {
            name: float(mask[max(0, top - length // 3) : bottom, columns].mean())
            for name, mask in bodies.items()
        }
        shares["white"] *= 0.3  # the worktop is as white
        whose = max(shares, key=lambda name: shares[name])
        under = float(bowl[int(bar.centre[1]) : bottom + length // 2, columns].mean())
        if (
            whose == colour
            and shares[whose] > 0.01
            and under > 0.04
            and (best is None or under * length > best[0])
        ):
            best = (under * length, bar)
    return best[1] if best else None


KNOB = Colour(240, 0.10, 10, 0.055, 0.02, 0.16)


STOVE_STEEL = Colour(240, 0.015, 25, 0.014, 0.40, 0.75)


def stove_knobs(view: View) -> list[Region]:
    """Black knobs in a steel front, largest first."""
    dark = view.like(KNOB) & ~hand_zone(view)
    steel_front = view.like(STOVE_STEEL)
    found = []
    for knob in regions(dark, 0.0003, 0.008, close=1):
        if knob.elongation > 4:
            continue
        margin = max(5, round(0.8 * knob.axes[0]))
        top, bottom = int(knob.rows.min()), int(knob.rows.max()) + 1
        left, right = int(knob.columns.min()), int(knob.columns.max()) + 1
        beside = [
            steel_front[top:bottom, max(0, left - margin) : left],
            steel_front[top:bottom, right : right + margin],
            steel_front[bottom : bottom + margin, left:right],
        ]
        if sum(float(part.mean()) > 0.25 for part in beside if part.size) >= 2:
            found.append(knob)
    return found
