"""Somebody who judges attempts in the lab by a list of words, one for each question: s, f, i, or - for later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import count

from capex.campaign.judging import Question
from capex.errors import RigFault
from capex.operators import Standby, never_ends
from capex.operators.arrangements import Arrangement, Match
from capex.run.verdicts import Verdict
from capex.worlds import Env, Start

WORDS = {"s": "success", "f": "failure", "i": "invalid"}


class LabOperator:
    name, stand_in = "Ada", True

    def __init__(self, words: str, recoveries: int = 0, ends_after: int | None = None):
        self.recoveries, self.ends_after, self._moves = recoveries, ends_after, count()
        self.arranged: list[tuple[int, Arrangement | None]] = []
        self.faults: list[str] = []
        self._words = iter(words)
        self._ticks = count()
        self.asked: list[Question] = []

    def arrange(
        self, env: Env, start: Start, arrangement: Arrangement | None, standby: Standby
    ) -> Match:
        self.arranged.append((start.index, arrangement))
        return Match(self.name, self.stand_in, None)

    def attend(self, env: Env):
        ticks = self.ends_after
        return never_ends(env) if ticks is None else nullcontext(lambda: next(self._moves) >= ticks)

    def recover(self, fault: RigFault, check: Callable[[], None]) -> bool:
        self.faults.append(str(fault))
        return len(self.faults) <= self.recoveries

    def judge(self, question: Question) -> Verdict | None:
        assert (question.episode_dir / "record.json").is_file()  # committed before it is asked
        self.asked.append(question)
        word = WORDS.get(next(self._words))
        at = f"2026-11-16T00:00:{next(self._ticks):02d}+00:00"
        return None if word is None else Verdict(word, self.name, at)  # type: ignore[arg-type]

    @property
    def starts(self) -> list[int]:
        return [q.start for q in self.asked]
