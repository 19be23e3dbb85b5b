"""The simulator's truth, in the base frame: what the expert and tests read, and no model sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capex.pose import Array, Pose
from capex.worlds.robosuite.anatomy import Anatomy


@dataclass(frozen=True)
class Truth:
    """Places and extents by the names that the model gives them."""

    anatomy: Anatomy

    def shape(self, name: str) -> tuple[Pose, Array]:
        """Pose and half extents of a shape's box."""
        model, data = self.anatomy.model, self.anatomy.data
        number = model.geom(name).id
        box = model.geom_aabb[number]
        rotation = data.geom_xmat[number].reshape(3, 3)
        centre_m = data.geom_xpos[number] + rotation @ box[:3]
        return self.anatomy.in_base(centre_m, rotation), np.array(box[3:])

    def body(self, name: str) -> Pose:
        """Pose of a body."""
        body = self.anatomy.data.body(name)
        return self.anatomy.in_base(body.xpos, body.xmat.reshape(3, 3))

    def site(self, name: str) -> Pose:
        """Pose of a marked place."""
        site = self.anatomy.data.site(name)
        return self.anatomy.in_base(site.xpos, site.xmat.reshape(3, 3))

    def place(self, in_world_m: Array) -> Array:
        """A place of robosuite's world."""
        return self.anatomy.in_base(in_world_m, np.eye(3)).position_m
