"""The vocabulary of fixtures and objects: boxes, cylinders, turned shapes, hinges, slides, shells.

Positions and half sizes in metres in the frame of the body a part is added to. A fixture's frame
stands on the floor at the middle of its front: x into the fixture, y to its left as seen by a robot
that faces it, z up.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from capex.pose import Array, PlanarPose
from capex.worlds.kitchen.materials import Look, Materials
from capex.worlds.kitchen.robot import BOX, CAPSULE, CYLINDER, HINGE, SLIDE, THING, VISUAL

Vec = Sequence[float]
Point = tuple[float, float, float]
SEEN, UNSEEN = 1, 3  # groups of geoms: the renderer draws the first
HIDDEN = {**THING, "group": UNSEEN}
SLICES = 20  # around a turned shape: it looks round, and the meshes stay small
FOOT_M = 0.003  # radius of the balls a dish stands on: small, so that it hardly stands higher
RING_BOXES, RING_M = (
    12,
    0.008,
)  # boxes in a rim's wall, each wide enough to meet the next; thickness
# Dry contact of flat things that stand: no rolling to stop, and fewer rows for the solver.
DISH: dict[str, Any] = {"condim": 3, "friction": (0.8, 0.01, 0.0001), "solref": (0.008, 1)}


@dataclass(frozen=True)
class Sign:
    """A geom seen only while a joint stands within limits: a burner's glow, running water."""

    geom: str
    joint: str
    low: float
    high: float


class Builder:
    """Adds parts to a scene: seen and felt; by its `drawn` only seen, by its `felt` only felt."""

    def __init__(self, spec: mujoco.MjSpec, materials: Materials):
        self.spec, self.materials = spec, materials
        self.signs: list[Sign] = []
        self._meshes = itertools.count(1)
        self._mask: Mapping[str, float] = THING
        self.drawn, self.felt = copy.copy(self), copy.copy(self)
        self.drawn._mask, self.felt._mask = VISUAL, HIDDEN

    def body(self, parent: Any, name: str, pos: Vec = (0, 0, 0), yaw: float = 0.0) -> Any:
        """A body; its name is what reports call the thing."""
        turn = (math.cos(yaw / 2), 0, 0, math.sin(yaw / 2))
        return parent.add_body(name=name, pos=pos, quat=turn)

    def fixture(self, name: str, place: PlanarPose, surface_m: float = 0.0) -> Any:
        """A fixed body whose frame stands on the floor or on a surface."""
        return self.body(self.spec.worldbody, name, (place.x, place.y, surface_m), place.yaw)

    def box(
        self, body: Any, centre: Vec, half: Vec, look: Look = "", *, face: str = "z", **options: Any
    ) -> Any:
        """A box. MuJoCo lays textures onto a box along one axis: `face` says which."""
        if face == "x":  # the geom's own axes are the body's y, z, x
            half, options = (half[1], half[2], half[0]), {"quat": (0.5, 0.5, 0.5, 0.5), **options}
        return self._geom(body, BOX, look, pos=centre, size=half, **options)

    def cylinder(
        self, body: Any, start: Vec, end: Vec, radius: float, look: Look = "", **options: Any
    ) -> Any:
        """A cylinder between two points."""
        ends, size = (*start, *end), (radius, 0, 0)
        return self._geom(body, CYLINDER, look, fromto=ends, size=size, **options)

    def capsule(
        self, body: Any, start: Vec, end: Vec, radius: float, look: Look = "", **options: Any
    ) -> Any:
        """A rounded bar between two points."""
        ends, size = (*start, *end), (radius, 0, 0)
        return self._geom(body, CAPSULE, look, fromto=ends, size=size, **options)

    def upright(
        self, body: Any, centre: Vec, radius: float, half: float, look: Look = "", **options: Any
    ) -> Any:
        """An upright cylinder around its centre."""
        return self._geom(body, CYLINDER, look, pos=centre, size=(radius, half, 0), **options)

    def ball(self, body: Any, centre: Vec, radius: float, look: Look = "", **options: Any) -> Any:
        """A ball."""
        sphere = mujoco.mjtGeom.mjGEOM_SPHERE
        return self._geom(body, sphere, look, pos=centre, size=(radius, 0, 0), **options)

    def _geom(self, body: Any, shape: mujoco.mjtGeom, look: Look, **options: Any) -> Any:
        name = self.materials.name(look)
        return body.add_geom(type=shape, material=name, **self._mask, **options)

    def turned(
        self,
        body: Any,
        profile: Sequence[tuple[float, float]],
        look: Look,
        *,
        axis: str = "z",
        pos: Vec = (0, 0, 0),
    ) -> None:
        """A drawn surface of revolution about z or x; profile points are (radius, height)."""
        vertices, faces = lathe(profile)
        if axis == "x":
            vertices = vertices[:, [2, 0, 1]]
        name = f"turned {next(self._meshes)}"
        mesh = self.spec.add_mesh(
            name=name,
            uservert=vertices.ravel().tolist(),
            userface=faces.ravel().tolist(),
            smoothnormal=1,
        )
        # An open surface has no volume; shell inertia lets it compile, and its mass is zero anyway.
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        shape, look = mujoco.mjtGeom.mjGEOM_MESH, self.materials.name(look)
        body.add_geom(type=shape, meshname=name, pos=pos, material=look, **VISUAL)

    def hinge(
        self, parent: Any, name: str, pos: Vec, axis: Vec, limit_rad: float, **joint: Any
    ) -> Any:
        """A part that swings about its origin from 0 to a stop; `joint`: MuJoCo's words (N m)."""
        return self._moving_part(parent, name, pos, limit_rad, type=HINGE, axis=axis, **joint)

    def slide(
        self, parent: Any, name: str, pos: Vec, axis: Vec, limit_m: float, **joint: Any
    ) -> Any:
        """A part that slides along an axis from 0 to a stop; `joint`: MuJoCo's words (N)."""
        return self._moving_part(parent, name, pos, limit_m, type=SLIDE, axis=axis, **joint)

    def _moving_part(self, parent: Any, name: str, pos: Vec, limit: float, **joint: Any) -> Any:
        part = parent.add_body(name=name, pos=pos)
        part.add_joint(name=name, range=(0.0, limit), limited=1, solref_limit=(0.008, 1), **joint)
        # The stop is the joint's, not the carcass'.
        self.spec.add_exclude(bodyname1=parent.name, bodyname2=name)
        return part

    def over_centre(self, joint: str, centre: float, stiffness: float, limit: float) -> None:
        """A spring that pushes a joint away from a point between its stops: a toggle, a detent."""
        spring = self.spec.add_actuator(
            name=f"{joint} spring", target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        spring.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        spring.gainprm[0] = 0.0
        spring.biasprm[:3] = (-stiffness * centre, stiffness, 0.0)
        spring.forcelimited = 1
        spring.forcerange = (-limit, limit)

    def mark(self, body: Any, name: str, pos: Vec) -> None:
        """A named point on a part, which the expert reads and nobody sees."""
        body.add_site(name=name, pos=pos, size=(0.003, 0.003, 0.003), rgba=(0, 0, 0, 0))

    def sign(self, geom: Any, joint: str, low: float, high: float) -> None:
        """Show a visual part only while a joint stands between two values."""
        geom.name = f"{joint} sign {len(self.signs) + 1}"
        self.signs.append(Sign(geom.name, joint, low, high))

    def bar_handle(
        self, body: Any, start: Vec, end: Vec, out: Vec, look: Look, radius: float = 0.009
    ) -> None:
        """A bar in front of a face, on two posts; `out` is the vector from the face to the bar."""
        a, b, o = (np.asarray(v, dtype=float) for v in (start, end, out))
        self.capsule(body, a + o, b + o, radius, look, mass=0.15)
        inset = (b - a) * 0.08
        for p in (a + inset, b - inset):
            self.capsule(body, p, p + o, radius * 0.8, look, mass=0.05)

    def feet(self, body: Any, radius: float, mass: float) -> None:
        """Three small balls under a dish: three cheap contacts instead of one that wanders."""
        for k in range(3):
            angle = math.pi / 6 + k * 2 * math.pi / 3
            centre = (radius * math.cos(angle), radius * math.sin(angle), FOOT_M)
            self.felt.ball(body, centre, FOOT_M, mass=mass / 3, **DISH)

    def ring(
        self,
        body: Any,
        radius: float,
        z: float,
        height: float,
        lean_rad: float,
        mass: float,
        wall_m: float = RING_M,
        **options: Any,
    ) -> None:
        """An invisible wall of boxes around the z axis: what a rim or a bowl feels like."""
        half = (wall_m / 2, radius * math.tan(math.pi / RING_BOXES) + wall_m / 2, height / 2)
        lean = np.array([math.cos(lean_rad / 2), 0, math.sin(lean_rad / 2), 0])
        for k in range(RING_BOXES):
            angle = 2 * math.pi * k / RING_BOXES
            yaw, quat = np.array([math.cos(angle / 2), 0, 0, math.sin(angle / 2)]), np.zeros(4)
            mujoco.mju_mulQuat(quat, yaw, lean)
            centre = (radius * math.cos(angle), radius * math.sin(angle), z + height / 2)
            self.felt.box(body, centre, half, quat=quat, mass=mass / RING_BOXES, **options)


def lathe(profile: Sequence[tuple[float, float]]) -> tuple[Array, npt.NDArray[np.int64]]:
    """Vertices (n,3), triangles (m,3) of a profile (radius, height) turned about z."""
    angles = 2 * np.pi * np.arange(SLICES) / SLICES
    rings: list[list[int]] = []
    vertices: list[tuple[float, float, float]] = []
    for radius, height in profile:
        if radius <= 1e-9:  # closed to a point
            rings.append([len(vertices)] * SLICES)
            vertices.append((0.0, 0.0, height))
        else:
            rings.append(list(range(len(vertices), len(vertices) + SLICES)))
            vertices += [(radius * math.cos(a), radius * math.sin(a), height) for a in angles]
    faces = []
    for low, high in itertools.pairwise(rings):
        for k in range(SLICES):
            a, b, c, d = low[k], low[(k + 1) % SLICES], high[(k + 1) % SLICES], high[k]
            if a != b:
                faces.append((a, b, c))
            if c != d:
                faces.append((a, c, d))
    return np.asarray(vertices), np.asarray(faces)
