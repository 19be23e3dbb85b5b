"""What success rules and the expert may read from the simulation: joints, contacts, distances. Never shown to a model."""

from __future__ import annotations

import math
from collections.abc import Mapping

import mujoco
import numpy as np

from capex.pose import Array


class Facts:
    """The physical truth of a scene. Reads derived quantities as the last control step left them; changes nothing."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, roles: Mapping[str, str]):
        self.model, self.data, self._roles = model, data, roles
        self._tip = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, "tip")
        self._bodies = {model.body(i).name: i for i in range(model.nbody)}
        self._joints = {model.joint(i).name: i for i in range(model.njnt)}

    def role(self, role: str) -> str:
        """The thing or part that plays a role in the task."""
        return self._roles[role]

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

    def distance_xy(self, a: str, b: str) -> float:
        """Horizontal distance between two bodies."""
        d = self.data.xpos[self._bodies[a]] - self.data.xpos[self._bodies[b]]
        return math.hypot(d[0], d[1])

    def tip_distance(self, body: str) -> float:
        """Distance from the gripper's tip to a body's origin."""
        d = self.data.site_xpos[self._tip] - self.data.xpos[self._bodies[body]]
        return math.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])

    def touching(self, a: str, b: str) -> bool:
        """Whether two bodies are in contact."""
        ia, ib = self._bodies[a], self._bodies[b]
        bodies = self.model.geom_bodyid[self.data.contact.geom]
        return bool(np.any(((bodies[:, 0] == ia) & (bodies[:, 1] == ib)) | ((bodies[:, 0] == ib) & (bodies[:, 1] == ia))))
