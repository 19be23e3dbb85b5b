"""`capex report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from capex.cli.console import console
from capex.cli.help import Examples


@dataclass(frozen=True)
class Report:
    """Tables, figures and one self-contained HTML page of runs; arms are compared on the same
    starts.
    """

    EXAMPLES: ClassVar[Examples] = {
        "One run": "capex report runs/first --out report",
        "A demonstrator beside the expert": "capex report runs/first runs/expert --out report",
    }

    runs: Positional[Annotated[tuple[Path, ...], arg(metavar="RUN [RUN ..]")]]
    """Run directories."""
    out: Annotated[Path, arg(metavar="DIR")]
    """Folder for report.html, tables/ (CSV, LaTeX) and figures/ (SVG, PNG)."""
    strips: Annotated[int, arg(metavar="N")] = 48
    """Episodes with a film strip, spread over sources, tasks and outcomes; each takes 0.1 MB."""

    def run(self) -> int:
        """Write the report, print what it says first, and where it is."""
        from capex import report
        from capex.run.files import read_json

        with console.status("reading, counting, drawing"):
            page = report.write(self.runs, self.out, strips=self.strips)
        said = read_json(self.out / report.INDEX)
        for line in (*said["notices"], *said["summary"], str(page)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        return 0
