"""The simulator's truth about things, in the base frame: what the expert and tests read, and no
model ever sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from capex.pose import Array, Pose
from capex.worlds.robosuite.anatomy import Anatomy


@dataclass(frozen=True)
class Truth:
    """Places and extents by the names that the model gives them."""

    model: Any
    data: Any
    anatomy: Anatomy

    def shape(self, name: str) -> tuple[Pose, Array]:
        """Pose and half extents of a shape's box."""
        number = self.model.geom(name).id
        box = self.model.geom_aabb[number]
        rotation = self.data.geom_xmat[number].reshape(3, 3)
        return self.anatomy.in_base(
            self.data.geom_xpos[number] + rotation @ box[:3], rotation
        ), np.array(box[3:])

    def body(self, name: str) -> Pose:
        """Pose of a body."""
        body = self.data.body(name)
        return self.anatomy.in_base(body.xpos, body.xmat.reshape(3, 3))

    def place(self, in_world_m: Array) -> Array:
        """A place of robosuite's world."""
        return self.anatomy.in_base(in_world_m, np.eye(3)).position_m
