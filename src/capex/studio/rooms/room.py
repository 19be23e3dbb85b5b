"""What a room of the studio is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from capex.errors import CapexError
from capex.studio.heads import Heads
from capex.studio.library import Library
from capex.studio.stage import Stage


@dataclass(frozen=True)
class Studio:
    """What all rooms share."""

    library: Library
    drives: tuple[str, ...] = ()  # worlds besides the package's that may be driven
    heads: Heads = field(default_factory=Heads)
    stage: Stage = field(default_factory=Stage)

    def read_ahead(self) -> None:
        """Begin to read every run, so that the first page need not wait for large ones."""

        def read() -> None:
            for run in self.library.runs().values():
                with contextlib.suppress(CapexError, OSError, KeyError, TypeError, ValueError):
                    self.heads.status(run)

        threading.Thread(target=read, name="capex reads ahead", daemon=True).start()


@dataclass(frozen=True)
class Room:
    """Routes under /api/NAME, and the page static/rooms/NAME.js."""

    name: str
    title: str
    routes: Callable[[Studio], Sequence[BaseRoute]]
