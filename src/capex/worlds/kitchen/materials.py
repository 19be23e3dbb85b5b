"""What surfaces look like: procedural textures, materials by name, and styles that choose among
them.

Every texture is computed from integers and a fixed-seed generator: no files, the same pixels
everywhere.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

Colour = tuple[float, float, float]
# A material's name, or a plain colour, with a fourth number for its shine where it is not 0.2.
Look = str | Colour | tuple[float, float, float, float]
Pixels = npt.NDArray[np.uint8]
SIZE = 128


@dataclass(frozen=True)
class Style:
    """The finish of one kitchen."""

    name: str
    cabinet: Colour
    cabinet_wood: bool
    counter: Colour
    counter_kind: str  # stone | wood
    floor: Colour
    floor_kind: str  # wood | tiles
    wall: Colour
    backsplash: Colour
    appliance: Colour
    handle: Colour


def _grey(v: float) -> Colour:
    return (v, v, v + 0.01)


STYLES: tuple[Style, ...] = (
    Style(
        "oak", (0.62, 0.44, 0.27), True, (0.86, 0.85, 0.82), "stone", (0.46, 0.33, 0.22), "wood",
        wall=(0.90, 0.88, 0.82), backsplash=(0.93, 0.93, 0.91), appliance=_grey(0.72), handle=_grey(0.22),
    ),
    Style(
        "white", (0.93, 0.93, 0.92), False, (0.36, 0.35, 0.35), "stone", (0.62, 0.60, 0.57), "tiles",
        wall=(0.83, 0.87, 0.88), backsplash=(0.72, 0.82, 0.84), appliance=_grey(0.80), handle=_grey(0.55),
    ),
    Style(
        "navy", (0.16, 0.24, 0.36), False, (0.90, 0.89, 0.87), "stone", (0.55, 0.42, 0.30), "wood",
        wall=(0.92, 0.91, 0.88), backsplash=(0.95, 0.95, 0.94), appliance=_grey(0.74), handle=(0.78, 0.63, 0.32),
    ),
    Style(
        "sage", (0.52, 0.60, 0.50), False, (0.70, 0.52, 0.34), "wood", (0.74, 0.71, 0.66), "tiles",
        wall=(0.94, 0.93, 0.89), backsplash=(0.88, 0.87, 0.80), appliance=_grey(0.93), handle=(0.25, 0.22, 0.20),
    ),
    Style(
        "walnut", (0.38, 0.25, 0.16), True, (0.82, 0.80, 0.76), "stone", (0.35, 0.36, 0.38), "tiles",
        wall=(0.86, 0.84, 0.80), backsplash=(0.60, 0.64, 0.62), appliance=_grey(0.24), handle=_grey(0.75),
    ),
    Style(
        "birch", (0.82, 0.72, 0.55), True, (0.42, 0.43, 0.44), "stone", (0.56, 0.54, 0.50), "tiles",
        wall=(0.88, 0.90, 0.90), backsplash=(0.80, 0.84, 0.82), appliance=_grey(0.78), handle=_grey(0.30),
    ),
    Style(
        "charcoal", (0.28, 0.29, 0.31), False, (0.78, 0.76, 0.72), "stone", (0.60, 0.47, 0.33), "wood",
        wall=(0.82, 0.80, 0.76), backsplash=(0.90, 0.89, 0.86), appliance=_grey(0.66), handle=(0.72, 0.55, 0.35),
    ),
    Style(
        "cherry", (0.50, 0.24, 0.15), True, (0.80, 0.78, 0.70), "stone", (0.66, 0.56, 0.44), "tiles",
        wall=(0.93, 0.90, 0.83), backsplash=(0.86, 0.82, 0.72), appliance=_grey(0.88), handle=(0.60, 0.52, 0.38),
    ),
    Style(
        "mint", (0.66, 0.80, 0.74), False, (0.88, 0.87, 0.84), "stone", (0.40, 0.30, 0.22), "wood",
        wall=(0.95, 0.94, 0.90), backsplash=(0.94, 0.95, 0.93), appliance=_grey(0.70), handle=_grey(0.40),
    ),
    Style(
        "terracotta", (0.85, 0.80, 0.72), False, (0.58, 0.40, 0.26), "wood", (0.66, 0.38, 0.27), "tiles",
        wall=(0.90, 0.84, 0.76), backsplash=(0.62, 0.70, 0.72), appliance=_grey(0.80), handle=(0.20, 0.18, 0.17),
    ),
)  # fmt: skip


def _noise(seed: int, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    return np.random.Generator(np.random.PCG64(seed)).random(shape)


def _smooth(noise: npt.NDArray[np.float64], along: int, across: int) -> npt.NDArray[np.float64]:
    """Periodic box blur by rolling sums, `along` rows and `across` columns wide."""
    out = noise
    for axis, width in ((0, along), (1, across)):
        out = np.mean([np.roll(out, k, axis=axis) for k in range(width)], axis=0)
    return np.asarray((out - out.min()) / (out.max() - out.min()))


def _pixels(colour: Colour, shade: npt.NDArray[np.float64]) -> Pixels:
    return np.clip(np.asarray(colour) * shade[..., None] * 255.0, 0, 255).astype(np.uint8)


@functools.lru_cache(maxsize=64)
def texture(kind: str, colour: Colour) -> Pixels:
    """Pixels (SIZE, SIZE, 3) of a wood, stone, tiles, bricks, brushed or plain surface."""
    if kind == "wood":
        grain = _smooth(_noise(1, (SIZE, SIZE)), 40, 2)
        rings = 0.5 + 0.5 * np.sin(14.0 * _smooth(_noise(2, (SIZE, SIZE)), 60, 9))
        shade = 0.78 + 0.20 * grain + 0.10 * rings
        shade[:, :: SIZE // 4] *= 0.72
        return _pixels(colour, shade)
    if kind == "stone":
        coarse, fine = _smooth(_noise(3, (SIZE, SIZE)), 11, 11), _noise(4, (SIZE, SIZE))
        return _pixels(colour, 0.90 + 0.10 * coarse - 0.14 * (fine > 0.93) + 0.08 * (fine < 0.05))
    if kind in ("tiles", "bricks"):
        shade = 0.97 + 0.03 * _smooth(_noise(5, (SIZE, SIZE)), 5, 5)
        rows = SIZE // 4
        cols = SIZE // 4 if kind == "tiles" else SIZE // 2
        for r in range(4):
            band = shade[r * rows : (r + 1) * rows]
            band[:2] *= 0.80
            shift = (r % 2) * cols // 2 if kind == "bricks" else 0
            for c in range(0, SIZE, cols):
                band[:, (c + shift) % SIZE] *= 0.80
                band[:, (c + shift + 1) % SIZE] *= 0.80
        return _pixels(colour, shade)
    if kind == "brushed":
        return _pixels(colour, 0.93 + 0.10 * _smooth(_noise(6, (SIZE, SIZE)), 1, 48))
    return _pixels(colour, np.ones((8, 8)))


class Materials:
    """Adds materials to a spec once each and hands out their names."""

    def __init__(self, spec: mujoco.MjSpec, style: Style, *, textures: bool = True):
        self._spec, self.style, self._known, self._textures = spec, style, set[str](), textures

    def textured(
        self,
        kind: str,
        colour: Colour,
        *,
        repeat: float = 2.0,
        shine: float = 0.2,
        emission: float = 0.0,
    ) -> str:
        """Name of the material for a kind and colour; `repeat` texture tiles fit into a metre."""
        name = f"{kind} {' '.join(f'{c:.3f}' for c in colour)} {repeat:g} {shine:g} {emission:g}"
        if name in self._known:
            return name
        self._known.add(name)
        material = self._spec.add_material(
            name=name, specular=shine, shininess=shine, emission=emission, reflectance=0.0
        )
        if kind == "plain" or not self._textures:
            material.rgba = (*colour, 1.0)
            return name
        texture_name = f"{kind} {' '.join(f'{c:.3f}' for c in colour)}"
        if texture_name not in self._known:
            self._known.add(texture_name)
            pixels = texture(kind, colour)
            added = self._spec.add_texture(
                name=texture_name,
                type=mujoco.mjtTexture.mjTEXTURE_2D,
                width=pixels.shape[1],
                height=pixels.shape[0],
                nchannel=3,
            )
            added.data = pixels.tobytes()
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = texture_name
        material.texuniform = True
        material.texrepeat = (repeat, repeat)
        return name

    def plain(self, colour: Colour, shine: float = 0.2) -> str:
        """A smooth surface of one colour."""
        return self.textured("plain", colour, shine=shine)

    def brushed(self, colour: Colour, shine: float) -> str:
        """Brushed metal."""
        return self.textured("brushed", colour, shine=shine)

    def lit(self, colour: Colour, emission: float, shine: float = 0.2) -> str:
        """A surface that shines by itself."""
        return self.textured("plain", colour, emission=emission, shine=shine)

    def name(self, look: Look) -> str:
        """The name of the material for a look."""
        return look if isinstance(look, str) else self.plain(look[:3], *look[3:])

    @property
    def cabinet(self) -> str:
        """Cabinet fronts."""
        if self.style.cabinet_wood:
            return self.textured("wood", self.style.cabinet)
        return self.plain(self.style.cabinet, 0.3)

    @property
    def trim(self) -> str:
        """The darker panels in cabinet doors."""
        red, green, blue = self.style.cabinet
        return self.plain((0.82 * red, 0.82 * green, 0.82 * blue))

    @property
    def counter(self) -> str:
        """Worktops."""
        return self.textured(self.style.counter_kind, self.style.counter, shine=0.4)

    @property
    def backsplash(self) -> str:
        """The tiles behind worktops."""
        return self.textured("bricks", self.style.backsplash, repeat=3.0, shine=0.5)

    @property
    def appliance(self) -> str:
        """The big appliances' fronts."""
        return self.brushed(self.style.appliance, 0.5)

    @property
    def handle(self) -> str:
        """Handles and knobs."""
        return self.plain(self.style.handle, 0.6)
