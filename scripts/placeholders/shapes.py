"""Boxes, joints, sites and regions as MJCF: what scripts/robocasa_placeholders.py builds its
placeholders from. Imported by it; nothing to run here.

A model is the shape that robosuite's XML objects have: an outer body with sites for the extent, a
body named `object` in it, and below that the moving parts. Metres and radians; a fixture's front
looks along -y.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Triple = tuple[float, float, float]
GRAY, DARK, RED = "0.72 0.72 0.74 1", "0.25 0.25 0.28 1", "0.85 0.25 0.2 1"
WALL = 0.015
_NO_CONTACT = {"contype": "0", "conaffinity": "0"}


@dataclass(frozen=True)
class Box:
    """A box of full size (width, depth, height) about a centre, drawn and felt."""

    centre: Triple
    size: Triple
    name: str = ""
    rgba: str = GRAY
    shape: str = "box"  # or "cylinder", upright: width is its diameter
    slippery: bool = False


@dataclass(frozen=True)
class Region:
    """A box that only marks a place: reg_NAME."""

    name: str
    centre: Triple
    size: Triple


@dataclass(frozen=True)
class Joint:
    """A hinge or a slide, with enough damping or friction to stay where it is put."""

    name: str
    kind: str
    axis: Triple
    low: float
    high: float
    at: Triple = (0.0, 0.0, 0.0)
    stiffness: float = 0.0
    damping: float = 1.0
    friction: float = 0.0  # N m of a hinge; what gravity would turn needs some


@dataclass(frozen=True)
class Part:
    """A body at a place in the model, with what hangs on it; positions are the body's own."""

    name: str
    at: Triple = (0.0, 0.0, 0.0)
    boxes: Sequence[Box] = ()
    joints: Sequence[Joint] = ()
    sites: Sequence[tuple[str, Triple, float]] = ()
    regions: Sequence[Region] = ()


@dataclass(frozen=True)
class Shape:
    """A whole model: its size, what stands still, what moves, and marks on the outer body."""

    size: Triple
    boxes: Sequence[Box] = ()
    parts: Sequence[Part] = ()
    sites: Sequence[tuple[str, Triple, float]] = ()
    regions: Sequence[Region] = ()
    anchor: Triple | None = None
    extent: str = "main"  # the region that bounds it: main of fixtures, bbox of objects
    textured: bool = False  # whether RoboCasa gives it a texture and a material of its own
    density: float = 100.0
    marks: dict[str, Triple] = field(default_factory=dict)


def numbers(values: Iterable[float]) -> str:
    """Numbers as MJCF writes them."""
    return " ".join(f"{value:.6g}" for value in values)


def model_xml(name: str, shape: Shape) -> str:
    """The model as a text that says that it is a placeholder."""
    root = ET.Element("mujoco", model=f"placeholder_{name}")
    root.append(ET.Comment(f" placeholder for {name}: it has names, joints and extent, no looks "))
    ET.SubElement(root, "compiler", angle="radian")
    asset = ET.SubElement(root, "asset")
    if shape.textured:
        ET.SubElement(
            asset, "texture", name="tex", type="2d", builtin="flat", width="8", height="8"
        )
        ET.SubElement(asset, "material", name="mat", texture="tex")
    outer = ET.SubElement(ET.SubElement(root, "worldbody"), "body")
    thing = ET.SubElement(outer, "body", name="object")
    _fill(thing, Part("", boxes=shape.boxes, sites=shape.sites, regions=shape.regions), shape)
    _region(thing, Region(shape.extent, (0.0, 0.0, 0.0), shape.size))
    for part in shape.parts:
        body = ET.SubElement(thing, "body", name=part.name, pos=numbers(part.at))
        _fill(body, part, shape)
    width, depth, height = (length / 2 for length in shape.size)
    marks = {
        "bottom_site": (0.0, 0.0, -height),
        "top_site": (0.0, 0.0, height),
        "horizontal_radius_site": (width, depth, 0.0),
        **shape.marks,
    }
    if shape.anchor is not None:
        marks["anchor_site"] = shape.anchor
    for mark, place in marks.items():
        ET.SubElement(outer, "site", name=mark, pos=numbers(place), size="0.005", rgba="0 0 0 0")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n"


def _fill(body: ET.Element, part: Part, shape: Shape) -> None:
    for joint in part.joints:
        ET.SubElement(
            body,
            "joint",
            name=joint.name,
            type=joint.kind,
            axis=numbers(joint.axis),
            pos=numbers(joint.at),
            range=numbers((joint.low, joint.high)),
            limited="true",
            damping=numbers([joint.damping]),
            stiffness=numbers([joint.stiffness]),
            frictionloss=numbers([joint.friction]),
            armature="0.005",
        )
    for number, box in enumerate(part.boxes):
        _box(body, box, f"{part.name or 'shell'}_{number}", shape)
    for region in part.regions:
        _region(body, region)
    for name, place, size in part.sites:
        ET.SubElement(
            body, "site", name=name, pos=numbers(place), type="cylinder",
            size=numbers((size, size)), rgba="0.4 0.6 0.9 0",
        )  # fmt: skip


def _box(body: ET.Element, box: Box, spare: str, shape: Shape) -> None:
    half = [length / 2 for length in box.size]
    size = half if box.shape == "box" else [half[0], half[2]]
    common = {"type": box.shape, "pos": numbers(box.centre), "size": numbers(size)}
    name, density = box.name or f"{spare}_g", numbers([shape.density])
    felt = {"group": "0", "density": density, "rgba": "0.5 0 0 0.5", **common}
    if box.slippery:
        felt |= {"friction": "0.02 0.005 0.0001", "priority": "1"}
    ET.SubElement(body, "geom", name=name, **felt)
    drawn = {"material": "mat"} if shape.textured else {"rgba": box.rgba}
    ET.SubElement(
        body,
        "geom",
        name=f"{name}_visual",
        group="1",
        mass="1e-8",
        **_NO_CONTACT,
        **common,
        **drawn,
    )


def _region(body: ET.Element, region: Region) -> None:
    ET.SubElement(
        body,
        "geom",
        name=f"reg_{region.name}",
        type="box",
        pos=numbers(region.centre),
        size=numbers(length / 2 for length in region.size),
        rgba="0 1 0 0",
        group="1",
        mass="1e-8",
        **_NO_CONTACT,
    )


def shell(size: Triple, *, front: bool = False, top: bool = True) -> list[Box]:
    """Walls of a hollow box, open in front or above."""
    w, d, h = size
    t = WALL
    walls = [
        Box((-(w - t) / 2, 0, 0), (t, d, h)),
        Box(((w - t) / 2, 0, 0), (t, d, h)),
        Box((0, (d - t) / 2, 0), (w - 2 * t, t, h)),
        Box((0, 0, -(h - t) / 2), (w - 2 * t, d - t, t)),
    ]
    if top:
        walls.append(Box((0, 0, (h - t) / 2), (w - 2 * t, d - t, t)))
    if front:
        walls.append(Box((0, -(d - t) / 2, 0), (w - 2 * t, t, h)))
    return walls


def knob(
    name: str,
    at: Triple,
    axis: Triple,
    high: float = 2.8,
    length: float = 0.03,
    across: tuple[float, float] = (0.035, 0.035),
) -> Part:
    """A knob that turns by its joint NAME_joint: so long along its axis, so wide across it."""
    sides = iter(across)
    x, y, z = (length if abs(a) > 0.5 else next(sides) for a in axis)
    bar = Box((0, 0, 0), (x, y, z), rgba=DARK)
    return Part(name, at, [bar], [Joint(f"{name}_joint", "hinge", axis, 0, high, damping=0.05)])


def side_door(name: str, joint: str, at: Triple, size: Triple, *, left: bool) -> Part:
    """A door in front of a place, its hinge on one side, a bar for a handle on the other."""
    w, d, h = size
    away = 1.0 if left else -1.0
    # The body stands at the hinge.
    panel = Box((away * w / 2, 0, 0), (w, d, h), f"{name}_panel")
    bar = (0.02, 0.03, min(0.4, h * 0.6))
    handle = Box((away * (w - 0.05), -0.03, 0), bar, f"{name}_handle_main", DARK)
    low, high = (-1.57, 0.0) if left else (0.0, 1.57)
    place = (at[0] - away * w / 2, at[1], at[2])
    return Part(name, place, [panel, handle], [Joint(joint, "hinge", (0, 0, 1), low, high)])


def drop_door(name: str, joint: str, at: Triple, size: Triple, *, slippery: bool = False) -> Part:
    """A door in front of a place that opens downwards."""
    w, d, h = size
    panel = Box((0, 0, h / 2), (w, d, h), f"{name}_panel", slippery=slippery)
    bar = (w * 0.6, 0.03, 0.02)
    handle = Box((0, -0.03, h - 0.04), bar, f"{name}_handle_main", DARK, slippery=slippery)
    # Upright it would fall open, slowly, and stand in a robot's way.
    hinge = Joint(joint, "hinge", (1, 0, 0), 0.0, 1.57, damping=3.0, friction=0.4)
    return Part(name, (at[0], at[1], at[2] - h / 2), [panel, handle], [hinge])


def rack(name: str, at: Triple, size: Triple, travel: float) -> Part:
    """A rack that slides out, with the region above it."""
    w, d, _ = size
    board = Box((0, 0, 0), (w, d, 0.01), f"{name}_board", DARK)
    grip = Box((0, -d / 2, 0.02), (w, 0.01, 0.04), f"{name}_grip", DARK)
    slide = Joint(f"{name}_joint", "slide", (0, -1, 0), 0.0, travel, damping=8.0)
    return Part(name, at, [board, grip], [slide])
