"""The training step as one CUDA graph: one launch from Python instead of hundreds.

Several trainings can share a graph. Each is a branch of it, so that on a large GPU the small
kernels of one fill the gaps of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from capex.students.trainer import WARM_UP_STEPS, Trainer


class Stepper:
    """Steps one training or several; on a CUDA device captured once and replayed.

    Warming up changes tensors and the random generator, so they are put back: a captured run and a
    plain one see the same numbers.
    """

    def __init__(self, trainings: Sequence[Trainer], device: torch.device, *, graphed: bool = True):
        self._trainings, self._device = trainings, device
        others = trainings[1:] if device.type == "cuda" else ()
        self._streams = [torch.cuda.Stream(device) for _ in others]  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        if graphed and device.type == "cuda":
            self._capture()

    def advance(self) -> None:
        """Run the next step of every training."""
        for training in self._trainings:
            training.prepare()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._forget()
            self._all()
        for training in self._trainings:
            training.step += 1

    def _all(self) -> None:
        if self._device.type != "cuda":
            for training in self._trainings:
                training.one()
            return
        here = torch.cuda.current_stream(self._device)
        for training, stream in zip(self._trainings[1:], self._streams, strict=True):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                training.one()
        self._trainings[0].one()
        for stream in self._streams:
            here.wait_stream(stream)

    def _forget(self) -> None:
        for training in self._trainings:
            training.forget()

    def _capture(self) -> None:
        for training in self._trainings:
            training.prepare()
        generator = torch.cuda.get_rng_state(self._device)
        state = [t for training in self._trainings for t in training.state_tensors()]
        before = [t.clone() for t in state]
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._forget()
                self._all()
        torch.cuda.current_stream(self._device).wait_stream(side)
        # The graph's own gradients are allocated during capture, and written anew by each replay.
        self._forget()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._all()
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)
        torch.cuda.set_rng_state(generator, self._device)
