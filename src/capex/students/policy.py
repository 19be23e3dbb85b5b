"""A trained policy as a plain object: reset() and act(observation); or many episodes at once.

An observation is a mapping: "images" (camera -> (H, W, 3) uint8), "state" (name -> number, or the
numbers in the policy's order) and "instruction" (text; ACT does not read it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capex.errors import CapexError, ErrorCode
from capex.students import checkpoint
from capex.students.act import ACT, Ensembler
from capex.students.device import choose_device, prepare
from capex.students.diffusion import Diffusion
from capex.students.runner import Answer, Runner
from capex.students.settings import SEED_MAX, ActSettings, DiffusionSettings
from capex.students.spec import PolicySpec
from capex.students.spoken import Interpreter

Action = npt.NDArray[np.float64]
Chunks = npt.NDArray[np.float32]  # normalised, (B, steps, A)
Observation = Mapping[str, Any]
STACKED = "stacked"  # of an observation: its images once more as one array, in the policy's order
BEFORE = "before"  # of an observation: those since the last question, the oldest first


class EpisodeMemory:
    """What a policy remembers within one episode: recent observations and planned actions."""

    ensembler: Ensembler  # ACT's

    def __init__(self, settings: ActSettings | DiffusionSettings, seed: int):
        self.seen: deque[tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]] = deque(
            maxlen=len(settings.observation_steps)
        )
        self.queue: deque[Action] = deque()
        if isinstance(settings, ActSettings):
            self.ensembler = Ensembler(settings.ensemble, settings.chunk)
        self.generator = torch.Generator().manual_seed(seed)

    def wants_images(self) -> bool:
        """Whether the next observation needs images; with actions still planned it does not."""
        return len(self.queue) < (self.seen.maxlen or 1)

    def take(self) -> Action:
        """The next planned action."""
        return self.queue.popleft()

    def ahead(self) -> list[Action]:
        """Take the actions that are planned already; what the policy would have seen on the way,
        the next observation brings along.
        """
        taken = list(self.queue)
        self.queue.clear()
        return taken


class PolicyQuestion:
    """Actions that a policy was asked for."""

    def __init__(
        self,
        episodes: Sequence[EpisodeMemory],
        parts: Sequence[tuple[Sequence[EpisodeMemory], Answer]],
        plan: Callable[[Sequence[EpisodeMemory], Chunks], npt.NDArray[np.float64]],
    ):
        self._episodes, self._parts, self._plan = episodes, parts, plan

    def ready(self) -> bool:
        """Whether `take` would not wait."""
        return all(answer.ready() for _, answer in self._parts)

    def take(self) -> list[Action]:
        """One action for each episode, once."""
        for asking, answer in self._parts:
            plans = self._plan(asking, answer.take().numpy())
            for episode, plan in zip(asking, plans, strict=True):
                episode.queue.extend(plan)
        return [episode.take() for episode in self._episodes]


class Policy:
    """A policy ready to act."""

    def __init__(
        self,
        spec: PolicySpec,
        net: ACT | Diffusion,
        device: str = "auto",
        *,
        graphed: bool = True,
        batch: int = 0,
        instructions: Path | None = None,
    ):
        self.spec = spec
        self._device = choose_device(device)
        prepare(self._device)
        net = net.to(self._device)
        self._runner = Runner(spec, net, self._device, graphed=graphed, batch=batch)
        self._interpreter = Interpreter(spec, net, instructions)
        self._runner.warm_up()
        self._episode: EpisodeMemory | None = None

    def reset(self, seed: int = 0) -> None:
        """Begin an episode."""
        self._episode = self.begin(seed)

    def act(self, observation: Observation) -> Action:
        """The next action of the episode that `reset` began, in native numbers and order."""
        if self._episode is None:
            raise CapexError(
                "call reset() before act(): a policy remembers within an episode",
                code=ErrorCode.WRONG_ORDER,
            )
        return self.act_many([self._episode], [observation])[0]

    def wants_images(self) -> bool:
        """Whether the next observation needs images."""
        return self._episode is None or self._episode.wants_images()

    def begin(self, seed: int = 0) -> EpisodeMemory:
        """The memory of a new episode, for `act_many`. A seed fixes what is random in it."""
        if not 0 <= seed <= SEED_MAX:
            raise CapexError(
                f"the seed of an episode is {seed}; it must be from 0 to {SEED_MAX}",
                code=ErrorCode.BAD_SETTING,
            )
        return EpisodeMemory(self.spec.settings, seed)

    def act_many(
        self, episodes: Sequence[EpisodeMemory], observations: Sequence[Observation]
    ) -> list[Action]:
        """One action for each of several episodes; the network runs once, on those that need it."""
        return self.ask_many(episodes, observations).take()

    def ask_many(
        self, episodes: Sequence[EpisodeMemory], observations: Sequence[Observation]
    ) -> PolicyQuestion:
        """The same, asked now and answered when it is taken; a GPU works meanwhile."""
        looks = [
            (episode, look)
            for episode, observation in zip(episodes, observations, strict=True)
            if episode.wants_images()
            for look in (*observation.get(BEFORE, ()), observation)
        ]
        images = [self._images(look) for _, look in looks]
        states = self._states([look for _, look in looks])
        for (episode, _), image, state in zip(looks, images, states, strict=True):
            episode.seen.append((image, state))
        asking = [k for k, e in enumerate(episodes) if not e.queue]
        texts = [str(observations[k].get("instruction", "")) for k in asking]
        parts, most = [], self._runner.most
        for first in range(0, len(asking), most):
            part = [episodes[k] for k in asking[first : first + most]]
            heard = self._interpreter.embed(texts[first : first + most])
            parts.append((part, self._ask(part, heard)))
        return PolicyQuestion(episodes, parts, self._plans)

    def _plans(self, episodes: Sequence[EpisodeMemory], chunks: Chunks) -> npt.NDArray[np.float64]:
        """Native actions (B, steps, A) that each executes before it asks again."""
        settings = self.spec.settings
        if isinstance(settings, DiffusionSettings):
            first = settings.observations - 1
            chosen = chunks[:, first : first + settings.execute]
        else:
            steps = [e.ensembler.update(c) for e, c in zip(episodes, chunks, strict=True)]
            chosen = np.stack(steps)[:, None]
        actions = self.spec.normalizer.action.invert(chosen)
        for column, low, high in self.spec.commands:
            higher = actions[..., column] > (low + high) / 2
            actions[..., column] = np.where(higher, high, low)
        return np.clip(actions, -1.0, 1.0).astype(np.float64)

    def _ask(self, episodes: Sequence[EpisodeMemory], heard: torch.Tensor) -> Answer:
        """Ask the network for some episodes, no more than it takes at a time."""
        slate, looks = self._runner.slate(len(episodes)), self.spec.looks
        images, states = slate.images.numpy(), slate.states.numpy()
        for k, episode in enumerate(episodes):
            seen = list(episode.seen)
            # The first frame stands for those before it.
            seen = [seen[0]] * (looks - len(seen)) + seen
            for step, (image, state) in enumerate(seen):
                images[k, step], states[k, step] = image, state
            if slate.noise is not None:
                torch.randn(slate.noise.shape[1:], generator=episode.generator, out=slate.noise[k])
        slate.words[: len(episodes)] = heard
        return self._runner.ask(slate, len(episodes))

    def _images(self, observation: Observation) -> npt.NDArray[np.uint8]:
        given, (width, height) = observation.get("images", {}), self.spec.image_size
        stacked = observation.get(STACKED)
        if stacked is not None and stacked.shape == (len(self.spec.cameras), height, width, 3):
            # Where every question brings all that is remembered, nothing is drawn over in use.
            settings = self.spec.settings
            steps = settings.execute if isinstance(settings, DiffusionSettings) else 1
            return np.asarray(stacked) if self.spec.looks <= steps else np.array(stacked)
        missing = [c for c in self.spec.cameras if c not in given]
        if missing:
            raise CapexError(
                f"the observation has no image of camera '{missing[0]}'; this policy sees"
                f" {', '.join(self.spec.cameras)}",
                code=ErrorCode.MISMATCH,
            )
        for camera in self.spec.cameras:
            image = np.asarray(given[camera])
            if image.shape != (height, width, 3) or image.dtype != np.uint8:
                shape = "x".join(map(str, image.shape))
                raise CapexError(
                    f"image '{camera}' is {shape} {image.dtype}; this policy was trained on"
                    f" {height}x{width}x3 uint8",
                    code=ErrorCode.MISMATCH,
                )
        return np.stack([np.asarray(given[c]) for c in self.spec.cameras])

    def _states(self, observations: Sequence[Observation]) -> npt.NDArray[np.float32]:
        """What the network reads of each observation's state, (B, S)."""
        rows = [self._state(observation) for observation in observations]
        states = np.array(rows, dtype=np.float32).reshape(len(rows), len(self.spec.state_names))
        if not np.all(np.isfinite(states)):
            raise self._unusable_state()
        return self.spec.normalizer.state_in(states)

    def _state(self, observation: Observation) -> npt.NDArray[np.float32]:
        given, names = observation.get("state"), self.spec.state_names
        if isinstance(given, Mapping):
            missing = [n for n in names if n not in given]
            if missing:
                raise CapexError(
                    f"the observation's state has no '{missing[0]}'; this policy needs"
                    f" {', '.join(names)}",
                    code=ErrorCode.MISMATCH,
                )
            given = [given[n] for n in names]
        try:
            state = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError, OverflowError):
            raise self._unusable_state() from None
        if state.shape != (len(names),):
            raise self._unusable_state()
        return state

    def _unusable_state(self) -> CapexError:
        names = self.spec.state_names
        return CapexError(
            f"the observation's state must be {len(names)} finite numbers: {', '.join(names)}",
            code=ErrorCode.MISMATCH,
        )


def load_policy(path: Path | str, device: str = "auto", instructions: Path | None = None) -> Policy:
    """The policy of a checkpoint, or of a training folder's last one; `instructions`: the encoder
    or the file of embeddings that it was trained with, for instructions that it has none of.
    """
    return make_policy(*checkpoint.load_network(Path(path)), device, instructions=instructions)


def make_policy(
    spec: PolicySpec,
    net: torch.nn.Module,
    device: str = "auto",
    *,
    batch: int = 0,
    instructions: Path | None = None,
) -> Policy:
    """A policy from a network."""
    assert isinstance(net, (ACT, Diffusion))
    return Policy(spec, net, device, batch=batch, instructions=instructions)
