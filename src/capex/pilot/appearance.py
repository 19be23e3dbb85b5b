"""What things look like, by the words of an instruction: the pilot's common sense, learned by
looking at pictures, never from a simulator.

Hue and saturation of each kind, and how to find it in one view. Unknown nouns are searched for by
the colour words in front of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from capex.pilot.segmentation import Colour, Mask, Pixel, Region, View, regions, union

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
    "bread": (Colour(30, 0.73, 3.0, 0.05), Colour(39, 0.40, 3.0, 0.05)),
    "corn": (Colour(47.5, 0.88, 3.0), Colour(101.5, 0.71, 4.0)),
    "bowl": (Colour(214.5, 0.78, 5.0, 0.06, 0.2),),
    "sweet potato": (Colour(6, 0.605),),
    "slice of bread": (Colour(27, 0.73, 2.5), Colour(41, 0.335)),
    "slice of toast": (Colour(23, 0.72, 2.5, 0.035), Colour(29, 0.72, 2.5, 0.035)),
    "waffle": (Colour(35, 0.75, 2.5), Colour(38, 0.67, 3.0)),
}
WORDS: dict[str, tuple[Colour, ...]] = {
    "red": (Colour(0, 0.80, 14, 0.22, 0.15),),
    "coke": (Colour(0, 0.80, 14, 0.22, 0.15),),
    "orange": (Colour(28, 0.85, 8, 0.16, 0.15),),
    "yellow": (Colour(52, 0.80, 9, 0.22, 0.15),),
    "green": (Colour(120, 0.70, 35, 0.32, 0.12),),
    "blue": (Colour(225, 0.70, 22, 0.32, 0.12),),
    "purple": (Colour(285, 0.70, 22, 0.32, 0.10),),
}
PADS = Colour(32, 0.89, 4.0, 0.04, 0.15)
EDGE_PIXELS_MIN = 4  # of a worktop's edge in a view: fewer give no line
STEPS_MAX = 3  # of a column that are asked for where a kitchen's colours are not known
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
) -> list[Region]:
    """Regions in the colours of a noun, largest first. In the wrist view whatever the hand itself
    hides is left out.
    """
    mask = view.like(*colours_of(noun)) & ~hand_zone(view)
    return [s for s in regions(mask, smallest, largest, close=1) if s.elongation < 14]


def pads(view: View) -> Region | None:
    """The two orange finger pads of an exterior view as one region."""
    return pads_by(view, [(0.0, 0.0)])[0]


def pads_by(view: View, tips: Sequence[Pixel]) -> list[Region | None]:
    """The two pads of each of several hands, by which tip they are nearest to."""
    parts = [s for s in regions(view.like(PADS), 0.00004, 0.004) if s.elongation < 9]
    nearest = [min(tips, key=lambda t: math.dist(t, part.centre)) for part in parts]
    own = [[p for p, n in zip(parts, nearest, strict=True) if n == tip] for tip in tips]
    return [union(row[:2]) if row else None for row in own]


def bars(view: View, metal: Mask, shortest: float = 0.06) -> list[Region]:
    """Long thin things of a material, longest first: handles. Whatever is thick (an arm, a wall) is
    taken away before.
    """
    width = max(2, view.height // 64)
    thin = metal & ~ndimage.binary_dilation(
        ndimage.binary_opening(metal, iterations=width), iterations=width + 1
    )
    found = [
        s
        for s in regions(thin, 0.0002, 0.02, close=1)
        if s.elongation > 4 and s.axes[0] > shortest * view.height / 2
    ]
    return sorted(found, key=lambda s: (-s.axes[0], s.centre))


def steel(view: View, dark: float = 0.42, bright: float = 1.01) -> Mask:
    """Bright metal."""
    return view.toned(219, 16, (0.022, 0.07), dark, bright)


def drawer_knobs(view: View) -> list[tuple[Region, Region]]:
    """Steel knobs on dark round plates: the head of each, and its plate."""
    dark = view.grey(0.12, 0.08, 0.20) & (np.abs(view.hue - 240) < 16) & ~hand_zone(view)
    bright = steel(view, 0.34) & ~hand_zone(view)
    plates = [s for s in regions(dark, 0.0001, 0.01) if s.elongation < 4]
    found = []
    for metal in regions(bright, 0.0003, 0.015):
        beside = [p for p in plates if p.beside(metal, 3) and p.area < 2.5 * metal.area]
        if metal.elongation > 4 or not beside:
            continue
        plate = beside[0]
        away = np.hypot(metal.columns + 0.5 - plate.centre[0], metal.rows + 0.5 - plate.centre[1])
        outer = away > 0.5 * away.max()
        found.append((Region(metal.rows[outer], metal.columns[outer]), plate))
    return found


def wooden(view: View) -> Mask:
    """Fronts of cupboards and drawers."""
    return view.like(Colour(29, 0.565, 2.5, 0.03, 0.2, 0.7))


def upright_handles(view: View) -> list[Region]:
    """Upright steel bars with a wooden door on at least one side, longest first; in a kitchen
    without such wood, with an even face of any colour. The posts that hold them are taken away
    before.
    """
    return _on_doors(view, wooden(view)) or _on_doors(view, _even(view))


def _even(view: View) -> Mask:
    """Where a picture is of one brightness around a pixel, and not of steel."""
    size = max(3, view.height // 80)
    spread = ndimage.maximum_filter(view.value, size) - ndimage.minimum_filter(view.value, size)
    return np.asarray((spread < 0.06) & ~steel(view))


def _on_doors(view: View, wood: Mask) -> list[Region]:
    """Upright steel bars beside a door's face."""
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


def free_stone(view: View) -> list[Pixel]:
    """Spots on a stone worktop with nothing near them, on a grid: the lowest in the picture, which
    are the nearest.
    """
    stone = ndimage.binary_closing(view.like(Colour(46, 0.047, 7, 0.016, 0.55, 0.92)), iterations=2)
    free = ndimage.binary_erosion(stone, iterations=max(2, view.height // 40))
    step = view.height // 12
    return [
        (u + 0.5, v + 0.5)
        for v in reversed(range(step, view.height, step))
        for u in range(step, view.width, step)
        if free[v, u]
    ][:16]


def worktop_edge(view: View, columns: int = 14) -> list[Pixel]:
    """Pixels on the front edge of stone worktops, just above the wooden fronts below it, from left
    to right; in other kitchens wherever one colour meets another below it.
    """
    edge = _stone_over_wood(view, columns)
    return edge if len(edge) >= EDGE_PIXELS_MIN else _steps(view, columns)


def _steps(view: View, columns: int) -> list[Pixel]:
    """Pixels at which an even colour meets another below it: the strongest few of each column."""
    angle, strength = np.radians(view.hue), 2 * view.value * view.saturation
    colour = np.stack([view.value, strength * np.cos(angle), strength * np.sin(angle)])
    deep = max(3, view.height // 64)
    smooth = ndimage.uniform_filter(colour, (0, deep, deep))
    contrast = np.zeros(view.value.shape)
    contrast[deep:-deep] = np.linalg.norm(smooth[:, 2 * deep :] - smooth[:, : -2 * deep], axis=0)
    peak = (contrast == ndimage.maximum_filter1d(contrast, 4 * deep, axis=0)) & (contrast > 0.12)
    edge: list[Pixel] = []
    for u in (int(column) for column in np.linspace(0.03, 0.97, columns) * view.width):
        rows = np.flatnonzero(peak[:, u])
        strongest = sorted(rows, key=lambda row: -contrast[row, u])[:STEPS_MAX]
        edge += [(u + 0.5, float(row) + 0.5) for row in sorted(strongest)]
    return edge


def _stone_over_wood(view: View, columns: int) -> list[Pixel]:
    """Pixels of a stone worktop right above a wooden front."""
    stone = ndimage.binary_closing(view.toned(46, 10, (0.028, 0.066), 0.5, 0.95), iterations=1)
    wood = wooden(view)
    deep = max(3, view.height // 100)
    rows = np.arange(deep, view.height - 3 * deep)
    edge: list[Pixel] = []
    for u in (int(column) for column in np.linspace(0.03, 0.97, columns) * view.width):
        above = stone[rows, u] & stone[rows - deep, u] & ~stone[rows + deep, u]
        at = rows[above & wood[rows + 2 * deep, u] & wood[rows + 3 * deep, u]]
        if at.size:
            edge.append((u + 0.5, float(at[-1]) - 0.5))
    return edge


def blue_grips(view: View) -> list[tuple[Region, Pixel]]:
    """Bright blue grips on stems: each with the middle of its thick end."""
    mask = view.like(Colour(220, 0.885, 6, 0.05, 0.25)) & ~hand_zone(view)
    thick = ndimage.distance_transform_edt(mask)
    found = []
    for shape in regions(mask, 0.0001, 0.02, close=1):
        k = int(np.argmax(thick[shape.rows, shape.columns]))
        found.append((shape, (float(shape.columns[k]) + 0.5, float(shape.rows[k]) + 0.5)))
    return found
