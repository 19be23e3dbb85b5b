"""People beside a rig: they arrange the scene before an attempt and judge it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capex.campaign.judging import Judge
from capex.operators.arrangements import Arrangement, Match
from capex.worlds import Env, Start


@dataclass(frozen=True)
class Standby:
    """An attempt that waits for its scene."""

    run_dir: Path  # where a picture to match may be shown
    chain: str  # WORLD--TASK--ARM
    check: Callable[[], None]  # called now and then while waiting; raises where the campaign stops


@contextmanager
def never_ends(env: Env) -> Iterator[Callable[[], bool]]:
    """`Operator.attend` of one who ends no attempt."""
    yield lambda: False


class Operator(Judge, Protocol):
    """A person at a terminal or in the studio, or the scripted operator of a simulated room."""

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> Match:
        """Arrange the scene like the stored one, or anew where there is none; returns when the
        scene is ready. The robot is at home. OperatorLeft where the operator wants no more.
        """

    def attend(self, env: Env) -> AbstractContextManager[Callable[[], bool]]:
        """While an attempt runs: gives whether the operator wants it to end now."""
