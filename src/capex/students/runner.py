"""Inference in batches. On a CUDA device each batch size is captured once as a graph; elsewhere
episodes are taken one by one.

A sum rounds differently in batches of different sizes, and a rollout is chaotic. So an answer must
not depend on how many ask together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from capex.students.act import ACT
from capex.students.diffusion import Diffusion
from capex.students.settings import cropped
from capex.students.spec import PolicySpec

SIZES = (1, 2, 4, 8, 16, 32, 64)  # captured batch sizes; a batch is padded to the next one


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
        self._sizes = (batch,) if batch else SIZES
        self._captured: dict[int, Captured] = {}

    @torch.no_grad()
    def __call__(
        self, images: Tensor, states: Tensor, words: Tensor, noise: Tensor | None
    ) -> Tensor:
        """images (B, steps, cameras, H, W, 3) uint8, states (B, steps, S), words (B, L) embedded,
        noise (1 + steps, B, horizon, A) for diffusion.
        """
        # Each thread has a current device of its own, and a server answers in threads.
        with torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext():
            return self._run(images, states, words, noise)

    def _run(self, images: Tensor, states: Tensor, words: Tensor, noise: Tensor | None) -> Tensor:
        most = self._sizes[-1] if self._device.type == "cuda" else 1
        if len(images) > most:
            parts = [slice(k, k + most) for k in range(0, len(images), most)]
            return torch.cat(
                [
                    self._run(
                        images[p], states[p], words[p], None if noise is None else noise[:, p]
                    )
                    for p in parts
                ]
            )
        inputs = [images, states, words] if noise is None else [images, states, words, noise]
        if not self._graphed:
            return self._forward([t.to(self._device) for t in inputs]).cpu()
        size = next(s for s in self._sizes if s >= len(images))
        if size not in self._captured:
            self._captured[size] = Captured(self._forward, inputs, size, self._device)
        return self._captured[size](inputs)[: len(images)].cpu()

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
        return self._net.sample(self._net.condition(images, inputs[1], inputs[2]), inputs[3])


class Captured:
    """One batch size: static inputs, and a graph of all that becomes of them."""

    def __init__(
        self,
        forward: Callable[[list[Tensor]], Tensor],
        inputs: list[Tensor],
        size: int,
        device: torch.device,
    ):
        self._inputs = [
            torch.zeros(_sized(t, size, k), dtype=t.dtype, device=device)
            for k, t in enumerate(inputs)
        ]
        self._graph, self._out = _capture(lambda: forward(self._inputs), device)

    def __call__(self, inputs: list[Tensor]) -> Tensor:
        for k, (held, given) in enumerate(zip(self._inputs, inputs, strict=True)):
            (held[:, : given.shape[1]] if k == 3 else held[: len(given)]).copy_(
                given, non_blocking=True
            )
        self._graph.replay()
        return self._out


def _sized(tensor: Tensor, size: int, k: int) -> tuple[int, ...]:
    shape = list(tensor.shape)
    shape[1 if k == 3 else 0] = size
    return tuple(shape)


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
