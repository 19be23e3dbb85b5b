"""What the pilot says about its own plans: designed to be as overconfident as the paper found its
model to be.

Stated confidences sit around 0.94 and rarely fall below 0.8, whatever happens. They know a little:
a waypoint that is meant to touch something gets slightly less. Nothing here looks at outcomes;
physics decides those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from capex.pilot.chance import Chance


@dataclass(frozen=True)
class Overconfidence:
    """How overconfident the pilot is; all but the first in logits."""

    usual: float = 0.945  # with a touch now and then, the mean is the 0.94 of the paper's model
    scatter: float = 0.55  # of a statement: fewer than one in twenty falls below 0.8
    touch: float = 0.25  # how much less a waypoint gets that is meant to touch something
    fade: float = 0.02  # how much less each further waypoint gets

    def state(self, chance: Chance, index: int, touch: bool) -> float:
        """The confidence stated for the waypoint at an index of the plan (from 0)."""
        scatter = self.scatter * chance.normal(f"confidence {index}")
        logit = math.log(self.usual / (1 - self.usual)) + scatter
        logit -= self.touch * touch + self.fade * index
        return round(min(0.99, 1 / (1 + math.exp(-logit))), 2)
