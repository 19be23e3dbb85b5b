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
        self.body_names = [model.body(i).name for i in range(model.nbody)]

    def role(self, role: str) -> str:
        """The thing or part that plays a role in the task."""
        return self._roles[role]

    def joint_fraction(self, joint: str) -> float:
        """A joint's position as a fraction of its range."""
        j = self.model.joint(joint)
        low, high = self.model.jnt_range[j.id]
        return float((self.data.qpos[self.model.jnt_qposadr[j.id]] - low) / (high - low))

    def joint(self, joint: str) -> float:
        """A joint's position."""
        return float(self.data.qpos[self.model.jnt_qposadr[self.model.joint(joint).id]])

    def position(self, body: str) -> Array:
        """A body's position in the world."""
        return np.array(self.data.xpos[self.model.body(body).id])

    def rotation(self, body: str) -> Array:
        """A body's orientation in the world."""
        return np.array(self.data.xmat[self.model.body(body).id]).reshape(3, 3)

    def distance_xy(self, a: str, b: str) -> float:
        """Horizontal distance between two bodies."""
        d = self.data.xpos[self.model.body(a).id] - self.data.xpos[self.model.body(b).id]
        return math.hypot(d[0], d[1])

    def tip_distance(self, body: str) -> float:
        """Distance from the gripper's tip to a body's origin."""
        d = self.data.site_xpos[self._tip] - self.data.xpos[self.model.body(body).id]
        return math.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])

    def touching(self, a: str, b: str) -> bool:
        """Whether two bodies are in contact."""
        ia, ib = self.model.body(a).id, self.model.body(b).id
        bodies = self.model.geom_bodyid[self.data.contact.geom]
        return bool(np.any(((bodies[:, 0] == ia) & (bodies[:, 1] == ib)) | ((bodies[:, 0] == ib) & (bodies[:, 1] == ia))))
