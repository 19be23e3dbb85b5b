"""Does the memory of an export stay flat? Exports the same demonstrations again and again as one
dataset, and watches parent and workers.

`python benchmarks/export_memory.py [PARALLEL]` prints the largest memory of each over the export.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from capex.campaign.api import demonstrate
from capex.dataset import Filters, Pipeline, export_run

COUNTS = (3, 12, 48)
STARTS = range(3)


def export(run: Path, out: Path, times: int, parallel: int, pipe) -> None:  # type: ignore[no-untyped-def]
    """Export in a process of its own, so that its largest memory is the export's; ru_maxrss of
    children is that of the largest one.
    """
    import resource

    exported = export_run(
        [run] * times,
        out,
        filters=Filters(uncertified=True),
        pipeline=Pipeline((128, 128)),
        parallel=parallel,
    )
    own, workers = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    pipe.send((exported.datasets[0].frames, own, workers))


def main() -> None:
    parallel = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    table = Table(title=f"memory of an export, 128x128, --parallel {parallel}")
    for column in ("demonstrations", "frames", "parent, MB", "largest worker, MB"):
        table.add_column(column, justify="right")
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        demonstrate("expert", "kitchen:TurnOnMicrowave", starts=STARTS, out=Path(folder) / "run")
        for count in COUNTS:
            ours, theirs = context.Pipe()
            arguments = (
                Path(folder) / "run",
                Path(folder) / f"set-{count}",
                count // len(STARTS),
                parallel,
                theirs,
            )
            process = context.Process(target=export, args=arguments)
            process.start()
            frames, own, workers = ours.recv()
            process.join()
            table.add_row(str(count), str(frames), f"{own:.0f}", f"{workers:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
