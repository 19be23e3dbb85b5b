"""A person beside the rig, at the terminal of `capex collect`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from capex.campaign.judging import Question
from capex.cli.keys import Keys
from capex.cli.progress import paused
from capex.cli.verdicts import TerminalJudge
from capex.errors import RigFault
from capex.run.verdicts import Verdict
from capex.worlds import Env, Start
from capex.worlds.robots import RigEnv

if TYPE_CHECKING:
    from capex.cli.arranging import TerminalArranger
    from capex.operators import Standby
    from capex.operators.arrangements import Arrangement, Match

LISTEN_S = 0.2


@dataclass(frozen=True)
class TerminalOperator:
    """Arranges and judges when asked."""

    judging: TerminalJudge
    stand_in: bool = False

    @property
    def name(self) -> str:
        """Who it is."""
        return self.judging.name

    @property
    def _arranging(self) -> TerminalArranger:
        from capex.cli.arranging import TerminalArranger  # here: most worlds reset themselves

        return TerminalArranger(self.judging.keys, self.judging.out, self.judging.paused)

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> Match:
        """Wait for the scene; that of a world that resets itself is ready."""
        from capex.operators.arrangements import Match

        with self.judging.paused():
            name = self.name  # asked for once
        if not env.spec.exclusive:
            return Match(name, self.stand_in, None)
        ready = self._arranging.arrange(env, start, arrangement, standby)
        return Match(ready.by or name, self.stand_in, None, notes=ready.notes)

    @contextmanager
    def attend(self, env: Env) -> Iterator[Callable[[], bool]]:
        """At a terminal: e ends the attempt, Enter or the space bar stops the arms at once. Earlier
        keys count for nothing.
        """
        if not self.judging.keys.terminal:
            yield lambda: False
            return
        told = "the robot moves: Enter or the space bar stops the arms, e ends the attempt"
        self.judging.out.print(told, highlight=False)
        ended, over = threading.Event(), threading.Event()

        def listen() -> None:
            keep = False
            while not over.is_set():
                key = self.judging.keys.key_within("e\n", LISTEN_S, keep=keep)
                keep = True
                if key == "e":
                    ended.set()
                elif key == "\n":
                    if isinstance(env, RigEnv):
                        env.stop()
                elif key == "":
                    return

        thread = threading.Thread(target=listen, name="capex operator", daemon=True)
        thread.start()
        try:
            yield ended.is_set
        finally:
            over.set()
            thread.join()

    def judge(self, question: Question) -> Verdict | None:
        """The verdict on an attempt; None: later."""
        return self.judging.judge(question)

    def recover(self, fault: RigFault, check: Callable[[], None]) -> bool:
        """Whether the person says that the rig is fine again."""
        return self._arranging.recover(str(fault), check)


@contextmanager
def at_terminal(by: str | None, out: Console, watch: Any) -> Iterator[TerminalOperator]:
    """The person at this terminal; the display `watch` pauses while a question is asked."""
    with closing(Keys()) as keys:
        yield TerminalOperator(TerminalJudge(by, keys, out, lambda: paused(watch)))
