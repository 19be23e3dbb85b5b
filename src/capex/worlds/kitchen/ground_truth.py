"""The state of the simulation for success rules and the expert; never shown to a model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import mujoco
import numpy as np
import numpy.typing as npt

from capex.pose import Array, Pose, quaternion_xyzw, rotation_matrix
from capex.worlds import ArmState, Contact, RobotState
from capex.worlds.kitchen import robot
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.control import Controller
from capex.worlds.kitchen.robot import ARM

LIMIT_MARGIN_RAD = 0.02  # nearer than this to a stop, a report names the joint
# Cosine to the closing direction from which a finger grips what it presses: fingertips that rest on
# a counter hold nothing.
GRIP_ALIGNMENT = 0.7
STATE_NAMES = (
    "eef_x", "eef_y", "eef_z", "eef_qx", "eef_qy", "eef_qz", "eef_qw",
    "finger_left", "finger_right", "base_x", "base_y", "base_yaw",
)  # fmt: skip


class Sensors:
    """Proprioception and contacts of one model; addresses and names are looked up once."""

    def __init__(self, model: mujoco.MjModel):
        def addresses(*joints: str) -> npt.NDArray[np.intp]:
            return np.array([model.jnt_qposadr[model.joint(j).id] for j in joints], dtype=np.intp)

        self._model = model
        self._parts = {model.body(name).id: label for name, label in robot.PARTS.items()}
        self._things = [
            self._parts.get(i, model.body(i).name) if i else "floor" for i in range(model.nbody)
        ]
        self._is_robot = np.array([i in self._parts for i in range(model.nbody)])
        self._arm = addresses(*panda.JOINTS)
        self._fingers = addresses("finger_left", "finger_right")
        self._base = addresses("base_x", "base_y", "base_yaw")
        self._tip = model.site("tip").id

    def touching(self, data: mujoco.MjData) -> bool:
        """Whether any part of the robot touches anything."""
        return bool(self._is_robot[self._model.geom_bodyid[data.contact.geom]].any())

    def read(self, data: mujoco.MjData, controller: Controller) -> RobotState:
        """The state of the robot."""
        position, rotation = controller.achieved(data)
        left, right = float(data.qpos[self._fingers[0]]), float(data.qpos[self._fingers[1]])
        hand: set[Contact] = set()
        other: set[Contact] = set()
        gripped: dict[str, set[str]] = {"left finger": set(), "right finger": set(), "palm": set()}
        bodies = self._model.geom_bodyid[data.contact.geom]
        rows = np.flatnonzero(self._is_robot[bodies].any(axis=1))
        closing = data.site_xmat[self._tip][1::3]  # the direction in which the fingers close
        for row, (one, two) in zip(rows.tolist(), bodies[rows].tolist(), strict=True):
            for part_body, thing_body in ((one, two), (two, one)):
                part, thing = self._parts.get(part_body), self._things[thing_body]
                if part in gripped:
                    hand.add(Contact(part, thing))
                    if abs(float((data.contact.frame[row, :3] * closing).sum())) > GRIP_ALIGNMENT:
                        gripped[part].add(thing)
                elif part is not None:
                    other.add(Contact(part, thing))
        q = data.qpos[self._arm]
        near = (q - panda.LOWER_RAD < LIMIT_MARGIN_RAD) | (panda.UPPER_RAD - q < LIMIT_MARGIN_RAD)
        arm = ArmState(
            Pose(position, rotation),
            left + right,
            frozenset(hand),
            any(c.part != "palm" for c in hand),
            frozenset(gripped["left finger"] & gripped["right finger"]),
            tuple(j for j, at in zip(panda.JOINTS, near, strict=True) if at),
        )
        x, y, yaw = (float(v) for v in data.qpos[self._base])
        proprio = np.array([*position, *quaternion_xyzw(rotation), left, right, x, y, yaw])
        return RobotState({ARM: arm}, frozenset(other), (x, y, yaw), proprio)


_SIGNS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))


class GroundTruth:
    """Joints, contacts and distances as the last control step left them; changes nothing."""

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        roles: Mapping[str, str],
        spots: Mapping[str, tuple[float, float, float]],
    ):
        self.model, self.data, self._roles, self._spots = model, data, roles, spots
        self.latched = False  # whether the task's momentary event (a button's press) has happened
        self._tip = model.site("tip").id
        self._names = [model.body(i).name for i in range(model.nbody)]
        self._bodies = {name: i for i, name in enumerate(self._names)}
        self._joints = {model.joint(i).name: i for i in range(model.njnt)}

    def role(self, role: str) -> str:
        """The thing or part that plays a role in the task."""
        return self._roles[role]

    def spot(self, role: str) -> Array:
        """A place that plays a role in the task."""
        return np.array(self._spots[role])

    def joint_fraction(self, joint: str) -> float:
        """A joint's position as a fraction of its range."""
        low, high = self.model.jnt_range[self._joints[joint]]
        return float((self.joint(joint) - low) / (high - low))

    def joint(self, joint: str) -> float:
        """A joint's position."""
        return float(self.data.qpos[self.model.jnt_qposadr[self._joints[joint]]])

    def position(self, body: str) -> Array:
        """A body's position in the world."""
        return np.array(self.data.xpos[self._bodies[body]])

    def rotation(self, body: str) -> Array:
        """A body's orientation in the world."""
        return np.array(self.data.xmat[self._bodies[body]]).reshape(3, 3)

    def point(self, site: str) -> Array:
        """A marked point in the world."""
        return np.array(self.data.site(site).xpos)

    def point_at(self, site: str, joint: str, value: float) -> Array:
        """Where a marked point of a moving part would be with its joint at another value."""
        i = self._joints[joint]
        axis, anchor, move = self.data.xaxis[i], self.data.xanchor[i], value - self.joint(joint)
        if self.model.jnt_type[i] == mujoco.mjtJoint.mjJNT_SLIDE:
            return np.asarray(self.point(site) + move * axis)
        return np.asarray(anchor + rotation_matrix(move * axis) @ (self.point(site) - anchor))

    def limit(self, joint: str) -> float:
        """Where a joint's range ends; it begins at 0."""
        return float(self.model.jnt_range[self._joints[joint]][1])

    @property
    def base(self) -> tuple[float, float, float]:
        """x, y and yaw of the robot's base."""
        x, y, yaw = (self.joint(name) for name in ("base_x", "base_y", "base_yaw"))
        return x, y, yaw

    def corners(self, body: str) -> Array:
        """World corners (n,3) of the boxes around those parts of a thing that can be touched."""
        i = self._bodies[body]
        first, corners = int(self.model.body_geomadr[i]), []
        for geom in range(first, first + int(self.model.body_geomnum[i])):
            if self.model.geom_contype[geom] or self.model.geom_conaffinity[geom]:
                centre, half = self.model.geom_aabb[geom, :3], self.model.geom_aabb[geom, 3:]
                R = self.data.geom_xmat[geom].reshape(3, 3)
                corners.append(self.data.geom_xpos[geom] + (centre + _SIGNS * half) @ R.T)
        return np.concatenate(corners)

    def tilt(self, body: str) -> float:
        """Angle between a body's own z axis and the vertical."""
        return math.acos(max(-1.0, min(1.0, float(self.data.xmat[self._bodies[body]][8]))))

    def half_height(self, body: str) -> float:
        """Half the height of a thing as it lies, from its first geom: ball, capsule or box."""
        geom = int(self.model.body_geomadr[self._bodies[body]])
        size, R = self.model.geom_size[geom], self.data.geom_xmat[geom].reshape(3, 3)
        if self.model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
            return float(np.abs(R[2]) @ size)
        return float(size[0])

    def distance_xy(self, a: str, b: str) -> float:
        """Horizontal distance between two bodies."""
        d = self.data.xpos[self._bodies[a]] - self.data.xpos[self._bodies[b]]
        return math.hypot(d[0], d[1])

    def tip_distance(self, body: str) -> float:
        """Distance from the gripper's tip to a body's origin."""
        d = self.data.site_xpos[self._tip] - self.data.xpos[self._bodies[body]]
        return math.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])

    def touched_by(self, body: str) -> set[str]:
        """Names of the bodies in contact with a body."""
        i = self._bodies[body]
        bodies = self.model.geom_bodyid[self.data.contact.geom]
        others = np.concatenate([bodies[bodies[:, 0] == i, 1], bodies[bodies[:, 1] == i, 0]])
        return {self._names[k] for k in others.tolist()}

    def touching(self, a: str, b: str) -> bool:
        """Whether two bodies are in contact."""
        return b in self.touched_by(a)
