"""Chance without state: every random number follows from the seed, the request and what it is for,
so that a request has one answer.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Chance:
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
