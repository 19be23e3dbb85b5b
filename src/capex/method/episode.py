"""The result of an attempt, and the interface of everything that makes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from capex.method.context import EpisodeContext
from capex.method.memory import Memory
from capex.method.record import EpisodeRecord
from capex.models import Model
from capex.pose import Array
from capex.worlds import Env, Start


@dataclass(frozen=True)
class Episode:
    """The result of an attempt: its record, the arrays of its steps, and the start images
    by hash.
    """

    record: EpisodeRecord
    steps: Mapping[str, Array]
    pictures: Mapping[str, bytes]
    seconds: float  # without the reset
    reset_s: float


class Demonstrator(Protocol):
    """Produces episodes: a model, the privileged expert, a person's recording, a student."""

    @property
    def name(self) -> str:
        """As records name it."""

    @property
    def stand_in(self) -> bool:
        """Whether it is scripted: neither a foundation model nor a person."""

    @property
    def model(self) -> Model | None:
        """The model that it asks, if it asks one."""

    def attempt(self, env: Env, start: Start, memory: Memory, context: EpisodeContext) -> Episode:
        """One episode from a start; a simulator or model error leaves as an exception."""
