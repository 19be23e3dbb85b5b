"""The vocabulary of which fixtures and things are made: boxes, cylinders, turned shapes, hinges,
slides, shells.

Positions and half sizes in metres in the frame of the body a part is added to. A fixture's frame
stands on the floor at the middle of its front: x into the fixture, y to its left as seen by a robot
that faces it, z up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from capex.worlds.kitchen.materials import Materials
from capex.worlds.kitchen.robot import THING, VISUAL

Vec = Sequence[float]
BOX, CYLINDER, SPHERE = (
    mujoco.mjtGeom.mjGEOM_BOX,
    mujoco.mjtGeom.mjGEOM_CYLINDER,
    mujoco.mjtGeom.mjGEOM_SPHERE,
)
CAPSULE, MESH = mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_MESH
SEEN, UNSEEN = 1, 3  # groups of geoms: the renderer draws the first
HIDDEN = {**THING, "group": UNSEEN}
SLICES = 20  # around a turned shape
FOOT_M = 0.003  # radius of the balls a dish stands on


@dataclass(frozen=True)
class Sign:
    """A part that is seen only while a joint stands within limits: the glow of a burner, water from
    a faucet.
    """

    geom: str
    joint: str
    low: float
    high: float


class Builder:
    """Adds parts to a scene."""

    def __init__(self, spec: mujoco.MjSpec, materials: Materials):
        self.spec, self.materials = spec, materials
        self.signs: list[Sign] = []
        self._meshes = 0

    def body(self, parent: Any, name: str, pos: Vec = (0, 0, 0), yaw: float = 0.0) -> Any:
        """A body; its name is what reports call the thing."""
        return parent.add_body(
            name=name, pos=pos, quat=(math.cos(yaw / 2), 0, 0, math.sin(yaw / 2))
        )

    def box(
        self,
        body: Any,
        centre: Vec,
        half: Vec,
        look: str,
        *,
        collide: bool = True,
        face: str = "z",
        **options: Any,
    ) -> Any:
        """A box that is seen and, unless told otherwise, felt. MuJoCo lays textures onto a box
        along one axis: `face` says which.
        """
        mask = THING if collide else VISUAL
        if face == "x":  # the geom's own axes are the body's y, z, x
            half, options = (half[1], half[2], half[0]), {"quat": (0.5, 0.5, 0.5, 0.5), **options}
        return body.add_geom(type=BOX, pos=centre, size=half, material=look, **mask, **options)

    def cylinder(
        self,
        body: Any,
        start: Vec,
        end: Vec,
        radius: float,
        look: str,
        *,
        collide: bool = True,
        **options: Any,
    ) -> Any:
        """A cylinder between two points."""
        mask = THING if collide else VISUAL
        return body.add_geom(
            type=CYLINDER,
            fromto=(*start, *end),
            size=(radius, 0, 0),
            material=look,
            **mask,
            **options,
        )

    def capsule(
        self,
        body: Any,
        start: Vec,
        end: Vec,
        radius: float,
        look: str,
        *,
        collide: bool = True,
        **options: Any,
    ) -> Any:
        """A rounded bar between two points."""
        mask = THING if collide else VISUAL
        return body.add_geom(
            type=CAPSULE,
            fromto=(*start, *end),
            size=(radius, 0, 0),
            material=look,
            **mask,
            **options,
        )

    def turned(
        self,
        body: Any,
        profile: Sequence[tuple[float, float]],
        look: str,
        *,
        axis: str = "z",
        pos: Vec = (0, 0, 0),
    ) -> None:
        """A visual surface of revolution: profile points (radius, height) from one end to the
        other, about z or x.
        """
        vertices, faces = lathe(profile)
        if axis == "x":
            vertices = vertices[:, [2, 0, 1]]
        self._meshes += 1
        name = f"turned {self._meshes}"
        self.spec.add_mesh(
            name=name,
            uservert=vertices.ravel().tolist(),
            userface=faces.ravel().tolist(),
            smoothnormal=1,
        )
        # An open surface has no volume; shell inertia lets it compile, and its mass is zero anyway.
        self.spec.mesh(name).inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        body.add_geom(type=MESH, meshname=name, pos=pos, material=look, **VISUAL)

    def hinge(
        self,
        parent: Any,
        name: str,
        pos: Vec,
        axis: Vec,
        limit_rad: float,
        *,
        friction_nm: float,
        damping: float,
        **options: Any,
    ) -> Any:
        """A part that swings about an axis through its own origin, from 0 (closed) to a stop."""
        joint = {
            "type": mujoco.mjtJoint.mjJNT_HINGE,
            "axis": axis,
            "frictionloss": friction_nm,
            "damping": damping,
            **options,
        }
        return self._moving_part(parent, name, pos, limit_rad, joint)

    def slide(
        self,
        parent: Any,
        name: str,
        pos: Vec,
        axis: Vec,
        limit_m: float,
        *,
        friction_n: float,
        damping: float,
        **options: Any,
    ) -> Any:
        """A part that slides along an axis, from 0 to a stop."""
        joint = {
            "type": mujoco.mjtJoint.mjJNT_SLIDE,
            "axis": axis,
            "frictionloss": friction_n,
            "damping": damping,
            **options,
        }
        return self._moving_part(parent, name, pos, limit_m, joint)

    def _moving_part(
        self, parent: Any, name: str, pos: Vec, limit: float, joint: dict[str, Any]
    ) -> Any:
        part = parent.add_body(name=name, pos=pos)
        part.add_joint(name=name, range=(0.0, limit), limited=1, solref_limit=(0.008, 1), **joint)
        # The stop is the joint's, not the carcass'.
        self.spec.add_exclude(bodyname1=parent.name, bodyname2=name)
        return part

    def over_centre(self, joint: str, centre: float, stiffness: float, limit: float) -> None:
        """A spring that pushes a joint away from a point between its stops, to whichever stop is
        nearer: a toggle, a detent.
        """
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
        self, body: Any, start: Vec, end: Vec, out: Vec, look: str, radius: float = 0.009
    ) -> None:
        """A bar in front of a face, on two posts; `out` is the vector from the face to the bar."""
        a, b, o = (
            np.asarray(start, dtype=float),
            np.asarray(end, dtype=float),
            np.asarray(out, dtype=float),
        )
        self.capsule(body, a + o, b + o, radius, look, mass=0.15)
        inset = (b - a) * 0.08
        for p in (a + inset, b - inset):
            self.capsule(body, p, p + o, radius * 0.8, look, mass=0.05)

    def feet(self, body: Any, radius: float, mass: float, **touch: Any) -> None:
        """Three small balls under a dish: it rests on them, in three cheap analytic contacts
        instead of one that wanders.
        """
        for k in range(3):
            angle = math.pi / 6 + k * 2 * math.pi / 3
            centre = (radius * math.cos(angle), radius * math.sin(angle), FOOT_M)
            body.add_geom(
                type=SPHERE, pos=centre, size=(FOOT_M, 0, 0), mass=mass / 3, **HIDDEN, **touch
            )

    def ring(
        self,
        body: Any,
        radius: float,
        z: float,
        height: float,
        thickness: float,
        lean_rad: float,
        mass: float,
        n: int = 12,
    ) -> None:
        """An invisible wall of boxes around the z axis: what a rim or a bowl feels like."""
        half_width = radius * math.tan(math.pi / n) + thickness / 2
        for k in range(n):
            angle = 2 * math.pi * k / n
            yaw = np.array([math.cos(angle / 2), 0, 0, math.sin(angle / 2)])
            lean = np.array([math.cos(lean_rad / 2), 0, math.sin(lean_rad / 2), 0])
            quat = np.zeros(4)
            mujoco.mju_mulQuat(quat, yaw, lean)
            centre = (radius * math.cos(angle), radius * math.sin(angle), z + height / 2)
            body.add_geom(
                type=BOX,
                pos=centre,
                quat=quat,
                size=(thickness / 2, half_width, height / 2),
                mass=mass / n,
                **HIDDEN,
            )


def lathe(profile: Sequence[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Vertices (n,3) and triangles (m,3) of a profile (radius, height) turned about z; ends at
    radius 0 are closed to a point.
    """
    angles = 2 * np.pi * np.arange(SLICES) / SLICES
    rings: list[list[int]] = []
    vertices: list[tuple[float, float, float]] = []
    for radius, height in profile:
        if radius <= 1e-9:
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
