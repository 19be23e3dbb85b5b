"""What an evaluation needs of a policy, ours or LeRobot's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


class ActorSpec(Protocol):
    """What a policy takes and gives, and where it comes from."""

    @property
    def policy(self) -> str:
        """Its kind, as records and tables name it."""

    @property
    def cameras(self) -> tuple[str, ...]:
        """Cameras that it sees."""

    @property
    def image_size(self) -> tuple[int, int]:
        """Width and height of the images it is shown."""

    @property
    def looks(self) -> int:
        """Of how many observations, up to the present one, it sees the images."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """Numbers that it reads, in its order."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """Numbers that it gives, in its order."""

    @property
    def initialisation(self) -> str:
        """What its weights began from, in words."""

    @property
    def training(self) -> Mapping[str, Any]:
        """Steps, seed, datasets, starts."""


class ActorMemory(Protocol):
    """What a policy remembers within one episode."""

    def wants_images(self) -> bool:
        """Whether the next observation needs images."""

    def ahead(self) -> list[npt.NDArray[np.float64]]:
        """Take the actions that are planned already."""


class Question(Protocol):
    """Actions that an actor was asked for."""

    def ready(self) -> bool:
        """Whether `take` would not wait."""

    def take(self) -> list[npt.NDArray[np.float64]]:
        """One action for each episode, in native numbers and order; once."""


class Actor(Protocol):
    """A policy that acts in several episodes at once."""

    @property
    def spec(self) -> ActorSpec:
        """What it is."""

    def begin(self, seed: int = 0) -> Any:
        """The ActorMemory of a new episode, for `act_many`."""

    def act_many(
        self, episodes: Sequence[Any], observations: Sequence[Mapping[str, Any]]
    ) -> list[npt.NDArray[np.float64]]:
        """One action for each episode, in native numbers and order."""

    def ask_many(
        self, episodes: Sequence[Any], observations: Sequence[Mapping[str, Any]]
    ) -> Question:
        """The same, asked now and answered when it is taken."""
