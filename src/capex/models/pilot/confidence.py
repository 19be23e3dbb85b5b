"""What the pilot says about its own plans: designed to be as overconfident as the paper found its
model to be.

Stated confidences sit around 0.94 and rarely fall below 0.8, whatever happens. They know a little:
a waypoint that is meant to touch something gets slightly less. Nothing here looks at outcomes;
physics decides those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from capex.models.pilot.chance import Chance


@dataclass(frozen=True)
class Overconfidence:
    """How overconfident the pilot is: the usual statement; in logits, how much it scatters, how
    much less a touch gets, and each further waypoint.
    """

    usual: float = 0.945
    scatter: float = 0.55
    touch: float = 0.25
    fade: float = 0.02

    def state(self, chance: Chance, place: int, touch: bool) -> float:
        """The confidence stated for a waypoint at a place of the plan (from 0)."""
        logit = math.log(self.usual / (1 - self.usual)) + self.scatter * chance.normal(
            f"confidence {place}"
        )
        logit -= self.touch * touch + self.fade * place
        return round(min(0.99, 1 / (1 + math.exp(-logit))), 2)
