"""The training step as one CUDA graph: what takes hundreds of kernel launches from Python becomes a single one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

WARM_UP_STEPS = 3


class Stepper:
    """Runs a step function: captured once and replayed on a CUDA device, called as it is elsewhere.

    `step` must do the same work each time on the same tensors. `state` are all tensors it changes; warming up changes them too, so they
    are put back, as is the random generator: a captured run and a plain one see the same numbers.
    """

    def __init__(self, step: Callable[[], None], state: Sequence[Tensor], forget: Callable[[], None], device: torch.device, graphed: bool):
        self._step, self._forget = step, forget
        self._graph: torch.cuda.CUDAGraph | None = None
        if graphed and device.type == "cuda":
            self._capture(state, device)

    def _capture(self, state: Sequence[Tensor], device: torch.device) -> None:
        generator = torch.cuda.get_rng_state(device)
        before = [t.clone() for t in state]
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._forget()
                self._step()
        torch.cuda.current_stream(device).wait_stream(side)
        self._forget()  # the graph's own gradients are allocated while it is captured, and written anew by each replay
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._step()
        for tensor, held in zip(state, before, strict=True):
            tensor.copy_(held)
        torch.cuda.set_rng_state(generator, device)

    def __call__(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._forget()
            self._step()
