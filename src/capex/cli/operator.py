"""A person beside the rig, at the terminal of `capex collect`."""

from __future__ import annotations

from dataclasses import dataclass

from capex.campaign.operators import Question
from capex.cli.verdicts import TerminalJudge
from capex.run.arrangements import Arrangement, Match
from capex.run.verdicts import Verdict
from capex.worlds import Env, Start


@dataclass(frozen=True)
class TerminalOperator:
    """Arranges and judges when asked."""

    judging: TerminalJudge
    stand_in: bool = False

    @property
    def name(self) -> str:
        """Who it is."""
        return self.judging.name

    def arrange(self, env: Env, start: Start, arrangement: Arrangement | None) -> Match:
        """The scene of a world that resets itself is ready."""
        return Match(self.name, self.stand_in, None)

    def judge(self, question: Question) -> Verdict | None:
        """The verdict on an attempt; None: later."""
        return self.judging.judge(question)
