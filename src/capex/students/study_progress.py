"""How far a study is, read from what its trainings and rollouts have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capex.run.store import Run
from capex.students import checkpoint
from capex.students.curves import CURVE
from capex.students.study import StudyTrial
from capex.worlds import split_name

TAIL_BYTES = 512  # of a curve, more than its last line


@dataclass(frozen=True)
class StudyProgress:
    """Training steps and rollouts, done and in all."""

    steps: int
    all_steps: int
    rollouts: int
    all_rollouts: int


def look(groups: Sequence[Sequence[StudyTrial]]) -> StudyProgress:
    """Of a study's trials, as `study.groups` gives them."""
    trials = [trial for group in groups for trial in group]
    jobs = [rollouts for trial in trials for rollouts in trial.rollouts]
    rolled = 0
    for job in jobs:
        there = set(Run(job.out).chain(*split_name(job.name), job.arm).finished())
        rolled += len(there & set(job.starts))
    return StudyProgress(
        sum(min(trial.job.steps, _steps(trial.job.out)) for trial in trials),
        sum(trial.job.steps for trial in trials),
        rolled,
        sum(len(job.starts) for job in jobs),
    )


def _steps(out: Path) -> int:
    """The last step that a training has written about."""
    saved = max(checkpoint.steps(out), default=0)
    try:
        with open(out / CURVE, "rb") as curve:
            curve.seek(0, 2)
            curve.seek(max(0, curve.tell() - TAIL_BYTES))
            last = curve.read().decode("ascii", "replace").splitlines()[-1]
        return max(saved, int(last.partition(",")[0]))
    except (OSError, ValueError, IndexError):  # none yet, or only the names of its columns
        return saved
