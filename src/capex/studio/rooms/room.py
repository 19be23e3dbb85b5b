"""What a room of the studio is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from capex.studio.heads import Heads
from capex.studio.library import Library
from capex.studio.stage import Stage


@dataclass(frozen=True)
class Studio:
    """What all rooms share."""

    library: Library
    heads: Heads = field(default_factory=Heads)
    stage: Stage = field(default_factory=Stage)


@dataclass(frozen=True)
class Room:
    """Routes under /api/NAME, and the page static/rooms/NAME.js."""

    name: str
    title: str
    routes: Callable[[Studio], Sequence[BaseRoute]]
