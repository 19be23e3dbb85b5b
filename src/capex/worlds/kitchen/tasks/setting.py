"""What several tasks' settings share."""

from __future__ import annotations

from collections.abc import Sequence

from capex.worlds.kitchen.fixtures import COUNTER_HEIGHT_M, Fixture
from capex.worlds.kitchen.scene import Kitchen
from capex.worlds.kitchen.situation import Draw, Placed, scatter


def clutter(
    draw: Draw, kitchen: Kitchen, counter: Fixture, count: int, towards: float, clear: Sequence[tuple[float, float, float]] = ()
) -> tuple[Placed, ...]:
    """Distractors at the back of the nearer three quarters of a metre of a worktop, clear of dishes and appliances."""
    end = counter.width / 2 - 0.08
    inner = max(-end, end - 0.8)
    low, high = (inner, end) if towards > 0 else (-end, -inner)
    return tuple(scatter(draw, counter, count, (0.40, low), (0.52, high), COUNTER_HEIGHT_M, [*clear, *kitchen.occupied]))
