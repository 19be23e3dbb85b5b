"""`capex report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import OmitArgPrefixes, Positional, arg

from capex.cli.allowing import Allowed
from capex.cli.console import console
from capex.cli.following import print_next
from capex.cli.help import Examples
from capex.errors import DamagedFile


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

    unaided: bool = False
    """Leave attempts out in which the operator spoke to the model. Those that a person took over
    are always left out."""

    allowed: OmitArgPrefixes[Allowed] = field(default_factory=Allowed)

    def run(self) -> int:
        """Write the report, print what it says first, and where it is."""
        from capex import report
        from capex.run.files import read_json

        with console.status("reading, counting, drawing"):
            page = report.write(self.runs, self.out, strips=self.strips, unaided=self.unaided)
        said = read_json(self.out / report.INDEX)
        for line in (*said["notices"], *said["summary"], str(page)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        if (run := _to_certify(self.runs)) is not None:
            print_next("capex", "certify", run)
        return 0


def _to_certify(runs: Sequence[Path]) -> Path | None:
    """The first run with demonstrations that nobody has executed again yet; the rollouts of
    students and forks are none, and what a person judged cannot be.
    """
    from capex.dataset.certify import CERTIFICATE
    from capex.run import load_run

    for path in runs:
        try:
            run = load_run(path)
        except DamagedFile:  # the report says so
            continue
        if run.manifest.recorded.command not in ("evaluate", "fork") and any(
            e.record.success and not (e.path / CERTIFICATE).exists() for e in run.episodes
        ):
            return path
    return None
