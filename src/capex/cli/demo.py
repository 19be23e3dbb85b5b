"""`capex demo`: the whole tour, from a campaign to a dataset, with the built-in kitchen and the
built-in pilot.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from rich.markup import escape
from tyro.conf import arg

from capex.cli.console import console
from capex.cli.farewell import farewell
from capex.cli.help import Examples
from capex.errors import CapexError, ErrorCode

TASKS = "kitchen:OpenStandMixerHead,TurnOffStove"  # where the two arms differ
ARMS = "capex,base"
PROCESSES = 2
STRIPS = 12


@dataclass(frozen=True)
class Demo:
    """A tour of about two minutes: the pilot collects two tasks on both arms, then report,
    certificates and a dataset. No key, no GPU.
    """

    EXAMPLES: ClassVar[Examples] = {
        "The tour": "capex demo",
        "A shorter one, elsewhere": "capex demo --starts 0:1 --out /tmp/demo",
    }

    out: Annotated[Path, arg(metavar="DIR")] = Path("demo")
    """Where everything goes; the same command again continues."""
    starts: Annotated[str, arg(metavar="STARTS")] = "0:3"
    """Starts of each task and arm: 0:3 is 0, 1 and 2."""

    def run(self) -> int:
        """Collect, report, film, certify, export; then say what to look at and what to
        type next.
        """
        from capex.campaign.api import collect
        from capex.campaign.settings import OPTIONS
        from capex.cli.progress import watching

        OPTIONS["starts"].checked("--starts", self.starts)
        _step(
            1,
            f"collecting: {TASKS}, arms {ARMS}, starts {self.starts}; the model is the pilot, a"
            " stand-in that needs no key",
        )
        with watching(console, json_events=False) as watch:
            run = collect(
                TASKS,
                arm=ARMS,
                model="pilot",
                starts=self.starts,
                out=self.out / "run",
                parallel=min(PROCESSES, os.cpu_count() or 1),
                watch=watch,
            )
        made: dict[str, Path] = {}
        _step(2, "the report: both arms on the same starts, calibration, costs, film strips")
        made["report"] = _attempt(lambda: _report(run.path, self.out / "report"))
        _step(3, "a film of one success")
        successes = [e.path for e in run.episodes if e.success]
        made["film"] = _attempt(lambda: _film(successes, self.out))
        _step(4, "certificates: every success executed again in a fresh process; then the dataset")
        made["dataset"] = _attempt(lambda: _export(run.path, self.out / "dataset"))
        farewell(run, {k: v for k, v in made.items() if v.exists()})
        return 0 if successes else 1


def _step(number: int, what: str) -> None:
    console.rule(f"[bold]{number} of 4[/]", align="left")
    console.print(escape(what))


def _attempt(work: Callable[[], Path]) -> Path:
    """What a part of the tour made; a part that cannot be had here costs a sentence, not
    the tour.
    """
    try:
        return work()
    except CapexError as error:
        console.print(f"[yellow]left out:[/] {escape(str(error))}", soft_wrap=True)
        return Path(os.devnull) / "nothing"


def _report(run: Path, out: Path) -> Path:
    from capex import report

    with console.status("reading, counting, drawing"):
        return report.write([run], out, strips=STRIPS)


def _film(successes: list[Path], out: Path) -> Path:
    from capex.dataset.film import write_video

    if not successes:
        raise CapexError(
            "no attempt succeeded, so there is nothing to film", code=ErrorCode.NO_DATA
        )
    best = next(
        (path for path in successes if path.parent.parent.name.endswith("--capex")), successes[0]
    )
    with console.status("rendering"):
        return write_video(best, out / "success.mp4")


def _export(run: Path, out: Path) -> Path:
    from capex.dataset import Pipeline, certify_run, export_run

    if out.exists():
        console.print(f"{out} exists already and is kept", highlight=False)
        return out
    processes = min(PROCESSES, os.cpu_count() or 1)
    with console.status("executing every success again"):
        results = certify_run(run, processes)
    certified = sum(r.certificate.certified for r in results)
    console.print(f"{certified} of {len(results)} successes certified", highlight=False)
    with console.status("rendering the demonstrations"):
        pipeline = Pipeline(video=True)
        exported = export_run(run, out, pipeline=pipeline, parallel=processes, command="capex demo")
    for dataset in exported.datasets:
        console.print(
            f"{dataset.demonstrations} demonstrations, {dataset.frames:,} frames", highlight=False
        )
    return out
