"""The consoles that every command prints to. What they show may be foreign text: control characters
go no further than here.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from capex.errors import printable


class PlainConsole(Console):
    """A console that passes on no control character but its own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of a renderable, their text cleaned; segments that move the cursor are
        rich's own.
        """
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


console = PlainConsole()
errors = PlainConsole(stderr=True)
