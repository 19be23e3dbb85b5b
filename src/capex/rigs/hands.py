"""Hands: what the guard keeps above the floor and out of keep-outs, from the tip to the flange.

A hand is a few parts, each a box along the axes of the tip's frame (x, y along the closing of the
fingers, z along the approach) whose edges may be rounded; a capsule is a box that is rounded by
half its width. Fingers count as open, with what is between them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Corner = tuple[float, float, float]
FINGERS = "fingers"
PARTS = (FINGERS, "palm", "wrist", "bracket")


@dataclass(frozen=True)
class HandPart:
    """One part, by its outer corners in the tip's frame, metres."""

    name: str
    lower_m: Corner
    upper_m: Corner
    round_m: float = 0.0  # radius of its edges


Hand = tuple[HandPart, ...]


def capsule(name: str, from_m: float, to_m: float, radius_m: float) -> HandPart:
    """A capsule along the approach; its ends are measured back from the tip."""
    return HandPart(name, (-radius_m, -radius_m, -to_m), (radius_m, radius_m, -from_m), radius_m)


def opened(hand: Hand, opening_m: float) -> Hand:
    """The hand with its fingers so far apart, each as thick as they are together when closed."""
    return tuple(_spread(part, opening_m) if part.name == FINGERS else part for part in hand)


def _spread(part: HandPart, opening_m: float) -> HandPart:
    (x0, y0, z0), (x1, y1, z1) = part.lower_m, part.upper_m
    by_m = (opening_m + y1 - y0) / 2
    return replace(part, lower_m=(x0, y0 - by_m, z0), upper_m=(x1, y1 + by_m, z1))


# Fingers closed. The pads of both reach beyond the tip, which is the middle between them.
HANDS: dict[str, Hand] = {
    "franka": (  # the Franka Hand on its flange; the wrist is the last link before it
        HandPart(FINGERS, (-0.0115, -0.0115, -0.058), (0.0115, 0.0115, 0.0125), 0.004),
        HandPart("palm", (-0.032, -0.102, -0.105), (0.032, 0.102, -0.037)),
        capsule("wrist", 0.07, 0.18, 0.045),
    ),
    "yam": (  # i2rt's linear_4310
        HandPart(FINGERS, (-0.0115, -0.0115, -0.07), (0.0115, 0.0115, 0.016), 0.004),
        HandPart("palm", (-0.025, -0.046, -0.136), (0.025, 0.046, -0.064)),
        capsule("wrist", 0.11, 0.19, 0.03),
    ),
}
# Of known drivers; of others a Franka Hand is assumed, and `capex check` says so.
DRIVER_HANDS = {"deoxys": "franka", "franky": "franka", "room": "franka", "yam": "yam"}
ASSUMED = "franka"
DEFAULT_HAND = opened(HANDS["franka"], 0.08)
