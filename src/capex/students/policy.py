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

Action = npt.NDArray[np.float64]
Observation = Mapping[str, Any]


class EpisodeMemory:
    """What a policy remembers within one episode: recent observations and planned actions."""

    def __init__(self, settings: ActSettings | DiffusionSettings, seed: int):
        self.seen: deque[tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]] = deque(
            maxlen=len(settings.observation_steps)
        )
        self.queue: deque[npt.NDArray[np.float32]] = deque()
        self.ensembler: Ensembler | None = None
        if isinstance(settings, ActSettings):
            self.ensembler = Ensembler(settings.ensemble, settings.chunk)
        self.generator = torch.Generator().manual_seed(seed)

    def wants_images(self) -> bool:
        """Whether the next observation needs images; with actions still planned it does not."""
        return len(self.queue) < (self.seen.maxlen or 1)


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
    ):
        self.spec = spec
        self._device = choose_device(device)
        prepare(self._device)
        net = net.to(self._device)
        self._runner = Runner(spec, net, self._device, graphed=graphed, batch=batch)
        self._episode: EpisodeMemory | None = None

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
        for episode, observation in zip(episodes, observations, strict=True):
            if episode.wants_images():
                episode.seen.append((self._images(observation), self._state(observation)))
        asking = [k for k, e in enumerate(episodes) if not e.queue]
        if asking:
            chunks = self._infer([episodes[k] for k in asking], [observations[k] for k in asking])
            for k, chunk in zip(asking, chunks, strict=True):
                episodes[k].queue.extend(self._plan(episodes[k], chunk))
        return [np.clip(e.queue.popleft(), -1.0, 1.0).astype(np.float64) for e in episodes]

    def _plan(self, episode: EpisodeMemory, chunk: torch.Tensor) -> list[npt.NDArray[np.float32]]:
        """Native actions to execute before looking again."""
        settings = self.spec.settings
        if episode.ensembler is not None:
            chosen = episode.ensembler.update(chunk)[None]
        else:
            assert isinstance(settings, DiffusionSettings)
            chosen = chunk[settings.observations - 1 : settings.observations - 1 + settings.execute]
        return list(self.spec.normalizer.action.invert(chosen.numpy()))

    def _infer(
        self, episodes: Sequence[EpisodeMemory], observations: Sequence[Observation]
    ) -> list[torch.Tensor]:
        settings = self.spec.settings
        images, states = [], []
        for episode in episodes:
            seen = list(episode.seen)
            # The first frame stands for those before it.
            seen = [seen[0]] * (len(settings.observation_steps) - len(seen)) + seen
            images.append(np.stack([i for i, _ in seen]))
            states.append(np.stack([s for _, s in seen]))
        noise = None
        if isinstance(settings, DiffusionSettings):
            shape = (1 + settings.diffusion_steps, settings.horizon, len(self.spec.action_names))
            drawn = [torch.randn(shape, generator=e.generator) for e in episodes]
            noise = torch.stack(drawn, dim=1)
        texts = (str(observation.get("instruction", "")) for observation in observations)
        words = torch.tensor([self.spec.instruction_row(text) for text in texts])
        seen_images, seen_states = (torch.from_numpy(np.stack(v)) for v in (images, states))
        return list(self._runner(seen_images, seen_states, words, noise))

    def _images(self, observation: Observation) -> npt.NDArray[np.uint8]:
        given, (width, height) = observation.get("images", {}), self.spec.image_size
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
            state = np.full(0, np.nan, dtype=np.float32)
        if state.shape != (len(names),) or not np.all(np.isfinite(state)):
            raise CapexError(
                f"the observation's state must be {len(names)} finite numbers: {', '.join(names)}"
            )
        return self.spec.normalizer.state_in(state)


def load_policy(path: Path | str, device: str = "auto") -> Policy:
    """The policy of a checkpoint, or of a training folder's last one."""
    return make_policy(*checkpoint.load_network(Path(path)), device)


def make_policy(
    spec: PolicySpec, net: torch.nn.Module, device: str = "auto", *, batch: int = 0
) -> Policy:
    """A policy from a network. Unknown instructions get the mean embedding of the known ones."""
    assert isinstance(net, (ACT, Diffusion))
    if isinstance(net, Diffusion) and spec.instructions:
        with torch.no_grad():
            net.instructions.weight[-1] = net.instructions.weight[:-1].mean(dim=0)
    return Policy(spec, net, device, batch=batch)
