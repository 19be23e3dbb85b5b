"""Noise that follows from the seed, the request and a name, so that a request has one reply; and
the confidences that the pilot states, drawn with it.

The confidences are as overconfident as the paper found its model to be: around 0.94, rarely below
0.8, slightly less for a waypoint that is meant to touch something. They never depend on outcomes.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """Random numbers by name."""

    seed: int
    request: str

    def uniform(self, name: str) -> float:
        """Between 0 and 1, the same for the same name."""
        digest = hashlib.sha256(f"{self.seed}\0{self.request}\0{name}".encode()).digest()
        return (int.from_bytes(digest[:8], "big") + 0.5) / 2**64

    def normal(self, name: str) -> float:
        """Of mean 0 and deviation 1 (Box and Muller)."""
        return math.sqrt(-2 * math.log(self.uniform(f"{name} r"))) * math.cos(
            math.tau * self.uniform(f"{name} a")
        )


@dataclass(frozen=True)
class Overconfidence:
    """How overconfident the pilot is; all but the first in logits."""

    usual: float = 0.945  # with a touch now and then, the mean is the 0.94 of the paper's model
    scatter: float = 0.55  # of a statement: fewer than one in twenty falls below 0.8
    touch: float = 0.25  # how much less a waypoint gets that is meant to touch something
    fade: float = 0.02  # how much less each further waypoint gets

    def state(self, noise: Noise, index: int, touch: bool) -> float:
        """The confidence stated for the waypoint at an index of the plan (from 0)."""
        scatter = self.scatter * noise.normal(f"confidence {index}")
        logit = math.log(self.usual / (1 - self.usual)) + scatter
        logit -= self.touch * touch + self.fade * index
        return round(min(0.99, 1 / (1 + math.exp(-logit))), 2)
