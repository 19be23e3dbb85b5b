"""`capex human`: the human demonstrations of a world's dataset, as a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from capex.campaign.names import parse_starts
from capex.cli.console import console


@dataclass(frozen=True)
class Human:
    """Takes the recorded human demonstrations of starts into a run, to be exported beside a
    demonstrator's from the same starts.
    """

    names: Positional[Annotated[str, arg(metavar="robocasa:TASK[,TASK..|all]")]]
    """Which tasks."""
    out: Path
    """Run directory; the same command again continues it."""
    starts: str = "0:20"
    """Start indices: 0:20, 7 or 1,4,9."""

    def run(self) -> int:
        """Take what the run does not hold yet."""
        from capex.campaign.human import run_human

        for result in run_human(self.names, parse_starts(self.starts), self.out):
            verdict = "success" if result.success else "no success by the world's check"
            console.print(
                f"{result.task} {result.index}: {result.steps} steps, {verdict}", highlight=False
            )
        return 0
