"""Whoever stands beside a rig: arranges the scene before an attempt and judges it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from capex.errors import RigFault
from capex.operators.arrangements import Arrangement, Match
from capex.run.verdicts import Verdict
from capex.worlds import Env, Start


class OperatorLeft(BaseException):
    """The operator ends the campaign. Not an error: nothing that handles errors may swallow it."""


@dataclass(frozen=True)
class Question:
    """An attempt that waits for a verdict."""

    episode_dir: Path
    world: str
    task: str
    method: str
    start: int
    instruction: str
    criterion: str  # what counts as success, in words
    rules: tuple[str, ...]  # those of the criterion that a reason may name as broken
    end: str  # how the attempt ended
    claimed_done: bool  # whether the model said that it was done


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


class Operator(Protocol):
    """A person at a terminal or in the studio, or the scripted stand-in of a simulated room."""

    @property
    def name(self) -> str:
        """As verdicts name it."""

    @property
    def stand_in(self) -> bool:
        """Whether it is not a person."""

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> Match:
        """Arrange the scene like the stored one, or anew where there is none; returns when the
        scene is ready. The robot stands at home. OperatorLeft where the operator wants no more.
        """

    def attend(self, env: Env) -> AbstractContextManager[Callable[[], bool]]:
        """While an attempt runs: gives whether the operator wants it to end now."""

    def recover(self, fault: RigFault, check: Callable[[], None]) -> bool:
        """The rig stopped; whether it is fine again. False ends the campaign."""

    def judge(self, question: Question) -> Verdict | None:
        """The verdict on an attempt; None: later."""
