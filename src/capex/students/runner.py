"""Inference in batches. On a CUDA device each batch size is captured once as a graph, and questions
may be asked ahead of the answers; elsewhere episodes are taken one by one.

A sum rounds differently in batches of different sizes, and a rollout is chaotic. So an answer must
not depend on how many ask together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from capex.students.act import ACT
from capex.students.diffusion import Diffusion
from capex.students.settings import DiffusionSettings, cropped
from capex.students.spec import PolicySpec

SIZES = (1, 2, 4, 8, 16, 32, 64)  # captured batch sizes; a batch is padded to the next one


class Slate:
    """The inputs of up to `size` episodes on the host, and what the network answers; a CUDA device
    reads and writes it by itself.
    """

    def __init__(self, spec: PolicySpec, size: int, device: torch.device):
        settings, (width, height) = spec.settings, spec.image_size
        self.size, pinned = size, device.type == "cuda"
        shape = (size, spec.looks, len(spec.cameras), height, width, 3)
        self.images = torch.zeros(shape, dtype=torch.uint8, pin_memory=pinned)
        self.states = torch.zeros((size, spec.looks, len(spec.state_names)), pin_memory=pinned)
        self.words = torch.zeros((size, spec.language_size), pin_memory=pinned)
        self.noise: Tensor | None = None  # what a trajectory begins from, and each step adds
        if isinstance(settings, DiffusionSettings):
            steps = (1 + settings.diffusion_steps, settings.horizon, len(spec.action_names))
            self.noise = torch.zeros((size, *steps), pin_memory=pinned)
        self.answer = torch.zeros(0)
        self.answered: Any = torch.cuda.Event() if pinned else None  # type: ignore[no-untyped-call]

    def inputs(self, count: int) -> list[Tensor]:
        """Of the first so many episodes."""
        given = (self.images, self.states, self.words, self.noise)
        return [tensor[:count] for tensor in given if tensor is not None]


class Answer:
    """Normalised actions (B, steps, A) that are under way."""

    def __init__(self, slate: Slate, count: int, free: Callable[[Slate], None]):
        self._slate, self._count, self._free = slate, count, free

    def ready(self) -> bool:
        """Whether `take` would not wait."""
        return self._slate.answered is None or bool(self._slate.answered.query())

    def take(self) -> Tensor:
        """The answer, once; its slate is free for others then."""
        if self._slate.answered is not None:
            self._slate.answered.synchronize()
        answer = self._slate.answer[: self._count].clone()
        self._free(self._slate)
        return answer


class Runner:
    """Raw observations in, normalised actions out. With `batch`, every call on a CUDA device is
    padded to that size.
    """

    def __init__(
        self,
        spec: PolicySpec,
        net: ACT | Diffusion,
        device: torch.device,
        *,
        graphed: bool = True,
        batch: int = 0,
    ):
        self._spec, self._net, self._device = spec, net.eval(), device
        self._graphed = graphed and device.type == "cuda"
        image = spec.normalizer.image
        self._scale, self._offset = (
            torch.from_numpy(image.scale).to(device),
            torch.from_numpy(image.offset).to(device),
        )
        on_gpu = (batch,) if batch else SIZES
        self._sizes = on_gpu if device.type == "cuda" else (1,)
        self._captured: dict[int, Captured] = {}
        self._free: list[Slate] = []

    @property
    def most(self) -> int:
        """Episodes that may ask together."""
        return self._sizes[-1]

    def slate(self, count: int) -> Slate:
        """Slate for the inputs of so many episodes, to be filled and then asked with."""
        size = next(s for s in self._sizes if s >= count)
        free = [slate for slate in self._free if slate.size == size]
        if not free:
            return Slate(self._spec, size, self._device)
        self._free.remove(free[0])
        return free[0]

    @torch.no_grad()
    def ask(self, slate: Slate, count: int) -> Answer:
        """Ask for the first `count` episodes of a slate."""
        with self._current():
            if not self._graphed:
                given = [t.to(self._device) for t in slate.inputs(count)]
                slate.answer = self._forward(given).cpu()
            else:
                if slate.size not in self._captured:
                    self._captured[slate.size] = Captured(self._forward, slate, self._device)
                self._captured[slate.size](slate, count)
        return Answer(slate, count, self._free.append)

    def warm_up(self) -> None:
        """Capture what the first question would wait for, seconds on a GPU; elsewhere nothing."""
        if self._graphed:
            self.ask(self.slate(1), 1).take()

    def _current(self) -> AbstractContextManager[object]:
        # Each thread has a current device of its own, and a server answers in threads.
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()

    def _prepare(self, images: Tensor) -> Tensor:
        """Centre crop and normalise: (B, steps, cameras, 3, h, w)."""
        size = self._spec.image_size
        width, height = cropped(size, self._spec.settings.crop)
        x, y = (size[0] - width) // 2, (size[1] - height) // 2
        images = images[..., y : y + height, x : x + width, :]
        return (images * self._scale + self._offset).permute(0, 1, 2, 5, 3, 4)

    def _forward(self, inputs: list[Tensor]) -> Tensor:
        images = self._prepare(inputs[0])
        if isinstance(self._net, ACT):
            actions: Tensor = self._net(images[:, 0], inputs[1][:, 0])
            return actions
        noise = inputs[3].transpose(0, 1).contiguous()
        return self._net.sample(self._net.condition(images, inputs[1], inputs[2]), noise)


class Captured:
    """One batch size: static inputs, and a graph of all that becomes of them."""

    def __init__(
        self, forward: Callable[[list[Tensor]], Tensor], slate: Slate, device: torch.device
    ):
        self._inputs = [torch.zeros_like(t, device=device) for t in slate.inputs(slate.size)]
        self._graph, self._out = _capture(lambda: forward(self._inputs), device)

    def __call__(self, slate: Slate, count: int) -> None:
        """Ask in the order of calls; the answer is there when the slate's event says so."""
        for held, given in zip(self._inputs, slate.inputs(count), strict=True):
            held[:count].copy_(given, non_blocking=True)
        self._graph.replay()
        if slate.answer.shape != self._out.shape:
            slate.answer = torch.zeros(self._out.shape, pin_memory=True)
        slate.answer.copy_(self._out, non_blocking=True)
        slate.answered.record()


def _capture(
    function: Callable[[], Tensor], device: torch.device
) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(2):
            function()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()
    return graph, out
