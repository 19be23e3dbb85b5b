"""An instruction as words, and how a policy comes by its embedding, for the records. Without torch:
simulating processes tell it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from capex.run.summary import HEARD

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
TRAINED, ENCODED, MEAN = "trained on", "encoded", "mean of the known ones"
WORDS_MAX = 48  # of an instruction; the rest is not read


def words_of(text: str) -> list[str]:
    """Lower-case words in order."""
    return WORD.findall(text.lower())


def vocabulary_of(instructions: Iterable[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """Every word of the instructions, those that are known first."""
    new = sorted({word for text in instructions for word in words_of(text)} - set(known))
    return (*known, *new)


def unknown_words(text: str, vocabulary: Sequence[str]) -> list[str]:
    """The words of an instruction that an encoder leaves out."""
    return [word for word in dict.fromkeys(words_of(text)) if word not in set(vocabulary)]


def tokens_of(text: str, vocabulary: Sequence[str]) -> list[int]:
    """The known words as numbers from 1 on, filled with 0 to WORDS_MAX."""
    number = {word: k for k, word in enumerate(vocabulary, start=1)}
    known = [number[word] for word in words_of(text) if word in number][:WORDS_MAX]
    return known + [0] * (WORDS_MAX - len(known))


@dataclass(frozen=True)
class Hearing:
    """How a policy comes by the embedding of an instruction, in words for the records."""

    trained: tuple[str, ...] = ()
    kind: str = ""  # table, words or given; empty where no instruction is read
    vocabulary: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: Any) -> Hearing:
        """Of a policy of ours; others say nothing about it."""
        if not getattr(spec, "language", ""):
            return cls()
        count = spec.training.get("instructions", len(spec.instructions))
        return cls(spec.instructions[:count], spec.language, spec.vocabulary)

    def tell(self, instruction: str) -> dict[str, str]:
        """What a record says about it."""
        return {HEARD: self._how(instruction)} if self.kind else {}

    def _how(self, instruction: str) -> str:
        if instruction in self.trained:
            return TRAINED
        if self.kind == "given":
            return ENCODED
        if self.kind == "table":
            return MEAN
        left_out = unknown_words(instruction, self.vocabulary)
        if not any(tokens_of(instruction, self.vocabulary)):
            return f"no word of it is known, {MEAN}"
        return f"{ENCODED}, without {', '.join(left_out)}" if left_out else ENCODED
