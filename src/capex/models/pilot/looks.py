"""What things look like, by the words of an instruction: the pilot's common sense, learned by
looking at pictures, never from a simulator.

Hue and saturation of each kind, and how to find it in one view. Unknown nouns are searched for by
the colour words in front of them.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from capex.models.pilot.eyes import Colour, Mask, Pixel, Shape, View, shapes, union

COLOURS: dict[str, tuple[Colour, ...]] = {
    "mango": (Colour(39.5, 0.85), Colour(27, 0.825)),
    "lemon": (Colour(53.5, 0.85),),
    "potato": (Colour(35, 0.47, 2.5, 0.035), Colour(33, 0.525, 2.0, 0.03)),
    "apple": (Colour(358.5, 0.90, 3.0), Colour(90, 0.75)),
    "tomato": (Colour(4.5, 0.91, 3.0),),
    "orange": (Colour(30, 0.96, 4.0, 0.04),),
    "avocado": (Colour(91, 0.64),),
    "cucumber": (Colour(116, 0.69),),
    "carrot": (Colour(25, 0.94),),
    "eggplant": (Colour(288, 0.79, 8.0, 0.06),),
    "bread roll": (Colour(35, 0.635),),
    "sweet potato": (Colour(6, 0.605),),
    "slice of bread": (Colour(27, 0.73, 2.5), Colour(41, 0.335)),
    "slice of toast": (Colour(23, 0.72, 2.5, 0.035), Colour(29, 0.72, 2.5, 0.035)),
    "waffle": (Colour(35, 0.75, 2.5), Colour(38, 0.67, 3.0)),
}
WORDS: dict[str, tuple[Colour, ...]] = {
    "red": (Colour(0, 0.80, 14, 0.22, 0.15),),
    "orange": (Colour(28, 0.85, 8, 0.16, 0.15),),
    "yellow": (Colour(52, 0.80, 9, 0.22, 0.15),),
    "green": (Colour(120, 0.70, 35, 0.32, 0.12),),
    "blue": (Colour(225, 0.70, 22, 0.32, 0.12),),
    "purple": (Colour(285, 0.70, 22, 0.32, 0.10),),
}
PADS = Colour(32, 0.89, 4.0, 0.04, 0.15)
WOOD = Colour(28.5, 0.545, 2.5, 0.05)


def colours_of(noun: str) -> tuple[Colour, ...]:
    """The colours that a noun comes in, by the longest known name in it, else by its
    colour words.
    """
    for name in sorted(COLOURS, key=len, reverse=True):
        if noun.endswith(name):
            return COLOURS[name]
    return tuple(c for word in noun.split() for c in WORDS.get(word, ()))


def hand_zone(view: View) -> Mask:
    """Where the view shows the robot's own fingers: the orange pads, and in the wrist view the
    strip that they always fill.
    """
    zone = np.zeros(view.value.shape, dtype=bool)
    if view.camera == "wrist":
        height, width = zone.shape
        rows = slice(round(0.69 * height), height)
        zone[rows, : round(0.29 * width)] = True
        zone[rows, round(0.71 * width) :] = True
        zone[round(0.95 * height) :] = True
    return zone


def coloured(
    view: View, noun: str, smallest: float = 0.00018, largest: float = 0.12
) -> list[Shape]:
    """Regions in the colours of a noun, largest first. In the wrist view whatever the hand itself
    hides is left out.
    """
    mask = view.like(*colours_of(noun)) & ~hand_zone(view)
    return [s for s in shapes(view, mask, smallest, largest, close=1) if s.elongation < 14]


def pads(view: View) -> Shape | None:
    """The two orange finger pads of an exterior view as one region."""
    parts = [s for s in shapes(view, view.like(PADS), 0.00004, 0.004) if s.elongation < 9]
    return union(parts[:2]) if parts else None


def bars(view: View, metal: Mask, shortest: float = 0.06) -> list[Shape]:
    """Long thin things of a material, longest first: handles. Whatever is thick (an arm, a wall) is
    taken away before.
    """
    width = max(2, view.height // 64)
    thin = metal & ~ndimage.binary_dilation(
        ndimage.binary_opening(metal, iterations=width), iterations=width + 1
    )
    found = [
        s
        for s in shapes(view, thin, 0.0002, 0.02, close=1)
        if s.elongation > 4 and s.axes[0] > shortest * view.height / 2
    ]
    return sorted(found, key=lambda s: (-s.axes[0], s.centre))


def steel(view: View, dark: float = 0.42, bright: float = 1.01) -> Mask:
    """Bright metal."""
    return (
        (np.abs(view.hue - 219) < 16)
        & (view.saturation > 0.022)
        & (view.saturation < 0.07)
        & view.between(dark, bright)
    )


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


def kettle_lever(view: View, colour: str) -> tuple[Shape, Shape] | None:
    """The red switch lever at the foot of the kettle of a colour, and its shell: the colour right
    above a lever says whose it is.
    """
    best: tuple[Shape, Shape] | None = None
    bodies = {name: view.like(c) for name, c in KETTLES.items()}
    for lever in shapes(view, view.like(LEVER) & ~hand_zone(view), 0.00012, 0.05, close=1):
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
            best = (lever, shapes(view, window, 0.0, 1.0)[0])
    return best


def faucet_handle(view: View, colour: str) -> tuple[Shape | None, Shape | None]:
    """A faucet handle's coloured cap, on its axis, and the coloured end of its lever: two blobs
    side by side, the cap is the upper one.
    """
    found = [
        s for s in shapes(view, view.like(FAUCET_CAPS[colour]), 0.00004, 0.004) if s.elongation < 6
    ]
    for k, a in enumerate(found):
        for b in found[k + 1 :]:
            apart = float(np.hypot(a.centre[0] - b.centre[0], a.centre[1] - b.centre[1]))
            if apart < 0.10 * view.height:
                return (a, b) if a.centre[1] < b.centre[1] else (b, a)
    return (None, None)


def drawer_knobs(view: View) -> list[tuple[Shape, Shape]]:
    """Steel knobs on dark round plates: the head of each, and its plate."""
    dark = view.grey(0.12, 0.08, 0.20) & (np.abs(view.hue - 240) < 16) & ~hand_zone(view)
    bright = (
        (np.abs(view.hue - 219) < 16)
        & (view.saturation > 0.022)
        & (view.saturation < 0.07)
        & view.between(0.34, 1.01)
        & ~hand_zone(view)
    )
    plates = [s for s in shapes(view, dark, 0.0001, 0.01) if s.elongation < 4]
    found = []
    for metal in shapes(view, bright, 0.0003, 0.015):
        beside = [p for p in plates if p.beside(metal, 3) and p.area < 2.5 * metal.area]
        if metal.elongation > 4 or not beside:
            continue
        plate = beside[0]
        away = np.hypot(metal.columns + 0.5 - plate.centre[0], metal.rows + 0.5 - plate.centre[1])
        outer = away > 0.5 * away.max()
        found.append((Shape(view.camera, metal.rows[outer], metal.columns[outer]), plate))
    return found


def wooden(view: View) -> Mask:
    """Fronts of cupboards and drawers."""
    return view.like(Colour(29, 0.565, 2.5, 0.03, 0.2, 0.7))


def upright_handles(view: View) -> list[Shape]:
    """Upright steel bars with a wooden door on at least one side, longest first; the posts that
    hold them are taken away before.
    """
    wood = wooden(view)
    metal = ndimage.binary_opening(steel(view) & ~hand_zone(view), np.ones((view.height // 36, 1)))
    found = []
    for bar in bars(view, metal, 0.05):
        aside = round(0.024 * view.width)
        left, right = (
            float(wood[bar.rows, np.clip(bar.columns + d, 0, view.width - 1)].mean())
            for d in (-aside, aside)
        )
        if abs(bar.axes[2][1]) > 0.85 and max(left, right) > 0.6:
            found.append(bar)
    return found


MIXERS: dict[str, Colour] = {
    "red": Colour(0, 0.885, 1.2, 0.03, 0.20),
    "blue": Colour(203, 0.51, 4, 0.04, 0.20),
    "yellow": Colour(46.5, 0.755, 4, 0.05, 0.25),
    "green": Colour(109, 0.378, 4, 0.04, 0.20),
    "white": Colour(48, 0.052, 6, 0.015, 0.35),
}


def mixer_bar(view: View, colour: str) -> Shape | None:
    """The bar at the nose of the stand mixer of a colour: bright metal over a bowl, with enamel of
    that colour above it.
    """
    bright = (
        (np.abs(view.hue - 219) < 18)
        & (view.saturation > 0.008)
        & (view.saturation < 0.055)
        & view.between(0.50, 1.01)
    )
    bright = ndimage.binary_opening(
        bright & ~hand_zone(view), structure=np.ones((3, 3), dtype=bool)
    )  # without the thin whisk
    bowl = (
        (np.abs(view.hue - 220) < 9)
        & (view.saturation > 0.052)
        & (view.saturation < 0.080)
        & view.between(0.22, 0.66)
    )
    bodies = {name: view.like(c) for name, c in MIXERS.items()}
    best: tuple[float, Shape] | None = None
    for bar in shapes(view, bright, 0.0003, 0.02):
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


def stove_knobs(view: View) -> list[Shape]:
    """Black knobs in a steel front, largest first."""
    dark = view.like(KNOB) & ~hand_zone(view)
    steel_front = view.like(STOVE_STEEL)
    found = []
    for knob in shapes(view, dark, 0.0003, 0.008, close=1):
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


def free_stone(view: View) -> list[Pixel]:
    """Spots on a stone worktop with nothing near them, on a grid."""
    stone = ndimage.binary_closing(view.like(Colour(46, 0.047, 7, 0.016, 0.55, 0.92)), iterations=2)
    free = ndimage.binary_erosion(stone, iterations=max(2, view.height // 40))
    step = view.height // 12
    return [
        (u + 0.5, v + 0.5)
        for v in range(step, view.height, step)
        for u in range(step, view.width, step)
        if free[v, u]
    ][:16]


def worktop_edge(view: View, columns: int = 14) -> list[Pixel]:
    """Pixels on the front edge of stone worktops, just above the wooden fronts below it, from left
    to right.
    """
    stone = (
        (np.abs(view.hue - 46) < 10)
        & (view.saturation > 0.028)
        & (view.saturation < 0.066)
        & view.between(0.5, 0.95)
    )
    stone = ndimage.binary_closing(stone, iterations=1)
    wood = wooden(view)
    deep = max(3, view.height // 100)
    found: list[Pixel] = []
    for column in np.linspace(0.03, 0.97, columns) * view.width:
        u = int(column)
        rows = np.arange(deep, view.height - 3 * deep)
        edge = (
            stone[rows, u]
            & stone[rows - deep, u]
            & wood[rows + 2 * deep, u]
            & wood[rows + 3 * deep, u]
            & ~stone[rows + deep, u]
        )
        at = rows[edge]
        if at.size:
            found.append((u + 0.5, float(at[-1]) - 0.5))
    return found


def blue_grips(view: View) -> list[tuple[Shape, Pixel]]:
    """Bright blue grips on stems: each with the middle of its thick end."""
    mask = view.like(Colour(220, 0.885, 6, 0.05, 0.25)) & ~hand_zone(view)
    thick = ndimage.distance_transform_edt(mask)
    found = []
    for shape in shapes(view, mask, 0.0001, 0.02, close=1):
        row, column = np.unravel_index(
            int(np.argmax(np.where(_only(shape, mask.shape), thick, 0.0))), mask.shape
        )
        found.append((shape, (float(column) + 0.5, float(row) + 0.5)))
    return found


def _only(shape: Shape, size: tuple[int, ...]) -> Mask:
    mask = np.zeros(size, dtype=bool)
    mask[shape.rows, shape.columns] = True
    return mask
