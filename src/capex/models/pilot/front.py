"""The front of the row of units, from the edge of its worktops: how far away it is and which way it
faces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capex.models.pilot import looks
from capex.models.pilot.ground import Answers, Feature
from capex.models.pilot.scene import Scene
from capex.pose import Array

EDGE_HEIGHT_M = 0.43
NEAR_M = 0.02  # points that lie this near to a line are on it


@dataclass(frozen=True)
class Front:
    """A straight front: the level direction into it, and how far away along that direction it is
    from the robot's mount.
    """

    into: Array
    distance_m: float

    @property
    def left(self) -> Array:
        """The level direction along it, to the left."""
        return np.array([-self.into[1], self.into[0], 0.0])


def ask(scene: Scene) -> list[Feature]:
    """What to ask to find the front."""
    seen = {v.camera: looks.worktop_edge(v) for v in scene.exterior()}
    return [
        scene.feature(f"edge {c}", {c: spots}, EDGE_HEIGHT_M) for c, spots in seen.items() if spots
    ]


def fit(answers: Answers) -> Front | None:
    """The line through most of the edge's points; None when too few lie on one."""
    points = [
        p[:2]
        for key, f in answers.items()
        if key.startswith("edge ")
        for p in f.all()
        if abs(p[2] - EDGE_HEIGHT_M) < 0.06
    ]
    best: list[Array] = []
    for i, a in enumerate(points):
        for b in points[:i]:
            along = a - b
            length = float(np.linalg.norm(along))
            if length > 0.15:
                on = [
                    p
                    for p in points
                    if abs(float(along[0] * (p - b)[1] - along[1] * (p - b)[0])) < NEAR_M * length
                ]
                best = on if len(on) > len(best) else best
    if len(best) < 4:
        return None
    middle = np.mean(best, axis=0)
    _, _, directions = np.linalg.svd(np.stack(best) - middle)
    into = np.array([directions[0][1], -directions[0][0]])
    into = into if float(into @ middle) > 0 else -into
    return Front(np.array([into[0], into[1], 0.0]), float(into @ middle))
