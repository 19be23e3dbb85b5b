"""A trained policy as a plain object: reset() and act(observation); or many episodes at once.

An observation is a mapping: "images" (camera -> (H, W, 3) uint8), "state" (name -> number, or the
numbers in the policy's order) and "instruction" (text; ACT does not read it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capex.errors import CapexError
from capex.students import checkpoint
from capex.students.act import ACT, Ensembler
from capex.students.device import choose_device, prepare
from capex.students.diffusion import Diffusion
from capex.students.runner import Runner
from capex.students.settings import SEED_MAX, ActSettings, DiffusionSettings
from capex.students.spec import PolicySpec
from capex.students.spoken import Interpreter

Action = npt.NDArray[np.float64]
Observation = Mapping[str, Any]
STACKED = "stacked"  # of an observation: its images once more as one array, in the policy's order


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
        """Take the planned actions that come before the policy looks again."""
        taken = []
        while not self.wants_images():
            taken.append(self.take())
        return taken


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
        self._episode: EpisodeMemory | None = None
        self._staging = torch.empty(0, dtype=torch.uint8)

    def reset(self, seed: int = 0) -> None:
        """Begin an episode."""
        self._episode = self.begin(seed)

    def act(self, observation: Observation) -> Action:
        """The next action of the episode that `reset` began, in native numbers and order."""
        if self._episode is None:
            raise CapexError("call reset() before act(): a policy remembers within an episode")
        return self.act_many([self._episode], [observation])[0]

    def wants_images(self) -> bool:
        """Whether the next observation needs images."""
        return self._episode is None or self._episode.wants_images()

    def begin(self, seed: int = 0) -> EpisodeMemory:
        """The memory of a new episode, for `act_many`. A seed fixes what is random in it."""
        if not 0 <= seed <= SEED_MAX:
            raise CapexError(f"the seed of an episode is {seed}; it must be from 0 to {SEED_MAX}")
        return EpisodeMemory(self.spec.settings, seed)

    def act_many(
        self, episodes: Sequence[EpisodeMemory], observations: Sequence[Observation]
    ) -> list[Action]:
        """One action for each of several episodes; the network runs once, on those that need it."""
        looking = [k for k, e in enumerate(episodes) if e.wants_images()]
        images = [self._images(observations[k]) for k in looking]
        states = self._states([observations[k] for k in looking])
        for k, image, state in zip(looking, images, states, strict=True):
            episodes[k].seen.append((image, state))
        asking = [k for k, e in enumerate(episodes) if not e.queue]
        if asking:
            chunks = self._infer([episodes[k] for k in asking], [observations[k] for k in asking])
            plans = self._plans([episodes[k] for k in asking], chunks.numpy())
            for k, plan in zip(asking, plans, strict=True):
                episodes[k].queue.extend(plan)
        return [episode.take() for episode in episodes]

    def _plans(
        self, episodes: Sequence[EpisodeMemory], chunks: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float64]:
        """Native actions (B, steps, A) that each executes before it looks again."""
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

    def _infer(
        self, episodes: Sequence[EpisodeMemory], observations: Sequence[Observation]
    ) -> torch.Tensor:
        settings = self.spec.settings
        steps = len(settings.observation_steps)
        images = self._staged((len(episodes), steps, *episodes[0].seen[0][0].shape))
        shown, states = images.numpy(), np.empty((len(episodes), steps, len(self.spec.state_names)))
        for k, episode in enumerate(episodes):
            seen = list(episode.seen)
            # The first frame stands for those before it.
            seen = [seen[0]] * (steps - len(seen)) + seen
            for step, (image, state) in enumerate(seen):
                shown[k, step], states[k, step] = image, state
        noise = None
        if isinstance(settings, DiffusionSettings):
            shape = (1 + settings.diffusion_steps, settings.horizon, len(self.spec.action_names))
            drawn = [torch.randn(shape, generator=e.generator) for e in episodes]
            noise = torch.stack(drawn, dim=1)
        texts = [str(observation.get("instruction", "")) for observation in observations]
        heard = self._interpreter.embed(texts)
        return self._runner(images, torch.from_numpy(states).float(), heard, noise)

    def _staged(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Room for the images of a batch, kept for the next one; a GPU reads it directly."""
        if self._staging.shape[1:] != shape[1:] or len(self._staging) < shape[0]:
            pinned = self._device.type == "cuda"
            self._staging = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        return self._staging[: shape[0]]

    def _images(self, observation: Observation) -> npt.NDArray[np.uint8]:
        given, (width, height) = observation.get("images", {}), self.spec.image_size
        stacked = observation.get(STACKED)
        if stacked is not None and stacked.shape == (len(self.spec.cameras), height, width, 3):
            # A policy that remembers only the present has acted on it before it is drawn over.
            once = len(self.spec.settings.observation_steps) == 1
            return np.asarray(stacked) if once else np.array(stacked)
        missing = [c for c in self.spec.cameras if c not in given]
        if missing:
            raise CapexError(
                f"the observation has no image of camera '{missing[0]}'; this policy sees"
                f" {', '.join(self.spec.cameras)}"
            )
        for camera in self.spec.cameras:
            image = np.asarray(given[camera])
            if image.shape != (height, width, 3) or image.dtype != np.uint8:
                shape = "x".join(map(str, image.shape))
                raise CapexError(
                    f"image '{camera}' is {shape} {image.dtype}; this policy was trained on"
                    f" {height}x{width}x3 uint8"
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
                    f" {', '.join(names)}"
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
            f"the observation's state must be {len(names)} finite numbers: {', '.join(names)}"
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
