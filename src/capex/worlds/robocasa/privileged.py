"""What RoboCasa's simulator knows of fixtures and things, in the robot's base frame: read by the
expert, and by nothing that a model sees.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from capex.pose import Array, Pose, rotation_matrix
from capex.worlds.robosuite.env import SuiteEnv
from capex.worlds.robosuite.robots import ARM

_SIGNS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))


@dataclass(frozen=True)
class Box:
    """The box around a shape: its pose in the base frame, and half its extents."""

    pose: Pose
    half_m: Array

    @property
    def centre(self) -> Array:
        """Its middle."""
        return self.pose.position_m

    @property
    def corners(self) -> Array:
        """Its corners, (8, 3)."""
        return self.centre + (_SIGNS * self.half_m) @ self.pose.rotation.T

    def reach(self, way: Array) -> float:
        """How far it extends from its middle along a direction."""
        return float(np.abs(self.pose.rotation.T @ way) @ self.half_m)


class Kitchen:
    """The present state of one RoboCasa environment."""

    def __init__(self, env: SuiteEnv):
        self.env, self.casa, self._anatomy = env, env.suite, env.truth.anatomy
        self._model, self._data = self._anatomy.model, self._anatomy.data

    @property
    def tip(self) -> Array:
        """Where the tip is."""
        return self.env.robot_state().arms[ARM.name].T_base_tip.position_m

    @property
    def hand(self) -> Array:
        """How the hand is turned."""
        return self.env.robot_state().arms[ARM.name].T_base_tip.rotation

    @property
    def fingers_open(self) -> bool:
        """Whether the fingers stand apart."""
        return self.env.robot_state().arms[ARM.name].opening_m > 0.01

    @property
    def base(self) -> tuple[float, float, float]:
        """Where RoboCasa says that the mobile base is, in its world: x, y, yaw."""
        body = self._data.body("mobilebase0_base")
        turned = body.xmat.reshape(3, 3)
        yaw = math.atan2(float(turned[1, 0]), float(turned[0, 0]))
        return float(body.xpos[0]), float(body.xpos[1]), yaw

    def footprints(
        self, above_m: float, below_m: float, but: str = ""
    ) -> list[tuple[Array, Array]]:
        """Corners on the floor of what can be touched between two heights, robot and one body
        apart; heights and corners are in RoboCasa's world.
        """
        model = self._model
        found: list[tuple[Array, Array]] = []
        for geom in range(model.ngeom):
            if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
                continue
            root = model.body(int(model.body_rootid[model.geom_bodyid[geom]])).name
            if root == but or root.startswith(("robot0", "mobilebase0", "gripper0")):
                continue
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
                continue
            centre, half = np.split(model.geom_aabb[geom], 2)
            rotation = self._data.geom_xmat[geom].reshape(3, 3)
            corners = self._data.geom_xpos[geom] + (centre + _SIGNS * half) @ rotation.T
            low, high = corners.min(axis=0), corners.max(axis=0)
            if high[2] > above_m and low[2] < below_m:
                found.append((low[:2], high[:2]))
        return found

    def point(self, in_world_m: Any) -> Array:
        """A place of RoboCasa's world."""
        return self.env.truth.place(np.asarray(in_world_m, dtype=float))

    def way(self, in_world: Any) -> Array:
        """A direction of RoboCasa's world."""
        return np.asarray(self._anatomy.mount.rotation.T @ np.asarray(in_world, dtype=float))

    def into(self, fixture: Any) -> Array:
        """The horizontal direction from before a fixture's front into it."""
        return self.way([-math.sin(fixture.rot), math.cos(fixture.rot), 0.0])

    def box(self, geom: str) -> Box:
        """A shape by its name."""
        return Box(*self.env.truth.shape(geom))

    def site(self, name: str) -> Array:
        """A marked place."""
        return self.env.truth.site(name).position_m

    def boxes(self, body: str) -> list[Box]:
        """The shapes of a body, and of those that hang on it, that can be touched."""
        model = self._model
        found: list[Box] = []
        top = model.body(body).id
        for geom in range(model.ngeom):
            if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
                continue
            at = int(model.geom_bodyid[geom])
            while at not in (top, 0):
                at = int(model.body_parentid[at])
            if at == top:
                found.append(self._box(geom))
        return found

    def _box(self, geom: int) -> Box:
        rotation = self._data.geom_xmat[geom].reshape(3, 3)
        centre, half = np.split(self._model.geom_aabb[geom], 2)
        middle = self._data.geom_xpos[geom] + rotation @ centre
        return Box(self._anatomy.in_base(middle, rotation), np.array(half))

    def extent(self, body: str) -> tuple[Array, Array]:
        """Lowest and highest corner of a body along the axes of the base frame."""
        corners = np.concatenate([box.corners for box in self.boxes(body)])
        return corners.min(axis=0), corners.max(axis=0)

    def thing(self, name: str) -> str:
        """The body of one of RoboCasa's objects."""
        return str(self.casa.objects[name].root_body)

    def body(self, name: str) -> Pose:
        """The pose of a body."""
        return self.env.truth.body(name)

    def holds(self, body: str) -> bool:
        """Whether both fingers grip a body, or one that hangs on it."""
        names = {body.removesuffix("_main")}
        top = self._model.body(body).id
        for number in range(self._model.nbody):
            at = number
            while at not in (top, 0):
                at = int(self._model.body_parentid[at])
            if at == top:
                names.add(self._model.body(number).name.removesuffix("_main"))
        return bool(names & self.env.robot_state().arms[ARM.name].held)

    def part(self, joint: str) -> Part:
        """The moving part of a fixture that a joint carries."""
        return Part(self, joint)


class Part:
    """A part of a fixture on one joint. Its opening is how far it is from shut, whichever way
    RoboCasa counts the joint.
    """

    def __init__(self, kitchen: Kitchen, joint: str):
        model, data = kitchen._model, kitchen._data
        found = model.joint(joint)
        low, high = (float(end) for end in found.range)
        self._sign = -1.0 if low < 0 else 1.0
        self.limit = high - low
        self.opening = self._sign * float(data.qpos[int(found.qposadr[0])])
        self.body = str(model.body(int(found.bodyid[0])).name)
        self.axis = kitchen.way(self._sign * data.xaxis[found.id])
        self.anchor = kitchen.point(data.xanchor[found.id])
        self._slides = bool(model.jnt_type[found.id] == mujoco.mjtJoint.mjJNT_SLIDE)

    def at(self, point: Array, opening: float) -> Array:
        """Where a point of the part is when the part is opened that far."""
        move = opening - self.opening
        if self._slides:
            return np.asarray(point + move * self.axis)
        return np.asarray(self.anchor + rotation_matrix(move * self.axis) @ (point - self.anchor))

    def turned(self, rotation: Array, opening: float) -> Array:
        """How an orientation that goes with the part is turned when the part is opened that far."""
        if self._slides:
            return rotation
        return np.asarray(rotation_matrix((opening - self.opening) * self.axis) @ rotation)

    def way(self, point: Array, goal: float) -> Array:
        """The direction in which a point begins to move towards an opening."""
        little = math.copysign(1e-4, goal - self.opening)
        move = self.at(point, self.opening + little) - point
        return np.asarray(move / float(np.linalg.norm(move)))

    def openings(self, point: Array, goal: float, leg_m: float = 0.05) -> list[float]:
        """Openings on the way to a goal, so that a point of the part moves a leg between them."""
        far = float(np.linalg.norm(self.at(point, goal) - point))
        count = max(1, math.ceil(1.1 * far / leg_m))
        return [self.opening + (goal - self.opening) * (k + 1) / count for k in range(count)]
