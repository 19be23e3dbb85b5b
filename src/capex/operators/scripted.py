"""The scripted operator: the stand-in for a person in a simulated room, from whose truth it judges.

It says everywhere that it is no person.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from capex.campaign.judging import Question
from capex.errors import CapexError, ErrorCode, RigFault
from capex.operators import Standby, never_ends
from capex.operators.arrangements import Arrangement, Match, made_by
from capex.run.files import now
from capex.run.verdicts import BROKEN, Verdict, Word
from capex.worlds import Env, Start

NAME = "scripted operator (stand-in)"
RECOVERIES = 5  # faults in a row that are cleared without a person, before the campaign stops
JITTER_M = 0.004  # how far a careful person misses when matching a stored arrangement


class ScriptedOperator:
    """Arranges and judges through the room's side channel, which nothing else sees."""

    name, stand_in = NAME, True

    def __init__(self, jitter_m: float = JITTER_M):
        self._jitter_m, self._recoveries = jitter_m, 0
        self._hand: Any = None
        self._scene: tuple[str, int, int, float] | None = None  # as it was last arranged
        self._arranged: tuple[str, int] | None = None  # WORLD:TASK and start, of the present scene

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> Match:
        """Put the objects where the start has them; a stored arrangement is missed by a little."""
        standby.check()
        reach = getattr(env, "room_hand", None)
        if reach is None:
            raise CapexError(
                f"{env.spec.name} has no simulated room for the scripted operator",
                code=ErrorCode.UNSUPPORTED,
            )
        self._hand = reach()
        # The chain that made an arrangement, and was perhaps killed in its first attempt, knows it.
        own = arrangement is None or arrangement.source == made_by(standby.chain)
        jitter_m = 0.0 if own else self._jitter_m
        self._scene = start.task, start.index, start.seed, jitter_m
        self._hand.arrange(*self._scene)
        self._arranged = env.spec.name, start.index
        return Match(self.name, self.stand_in, None)

    attend = staticmethod(never_ends)

    def judge(self, question: Question) -> Verdict | None:
        """From the truth, while the room is as the attempt left it. Of a room that is gone it knows
        nothing: that attempt is invalid and runs again.
        """
        if self._arranged != (f"{question.world}:{question.task}", question.start):
            gone = "the simulated room ended before it could be judged"
            return Verdict("invalid", self.name, now(), words=gone)
        self._recoveries = 0
        achieved, words = self._hand.judge()
        word: Word = "success" if achieved else "failure"
        rule = "" if achieved else next((r for r in question.rules if BROKEN + r in words), "")
        return Verdict(word, self.name, now(), rule and BROKEN + rule, words or word)

    def recover(self, fault: RigFault, check: Callable[[], None]) -> bool:
        """Mend what the room let go wrong, a few times; an arm that does not find home is taken
        there by hand.
        """
        check()
        self._recoveries += 1
        if self._recoveries > RECOVERIES:
            return False
        if self._hand is not None:
            self._hand.mend()
            if fault.not_home and self._scene is not None:
                self._hand.arrange(*self._scene)
        return True
