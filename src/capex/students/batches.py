"""Training batches: indices, gathering, cropping and normalising, all on the device; images live
there as uint8 when they fit.

What a step reads depends on (seed, step) alone, so that a resumed run sees the same batches.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capex.students.act import ActBatch
from capex.students.data import Demonstrations
from capex.students.diffusion import DiffusionBatch
from capex.students.settings import ActSettings, cropped
from capex.students.spec import PolicySpec

Rows = npt.NDArray[np.int64]
ROWS_AHEAD = 1000  # steps whose indices are sent to the device at once
PREFETCH = 8  # batches read ahead from disk
READERS = 4  # threads that read them; copying and waiting for a disk leave the interpreter free


class Order:
    """Which frames each step trains on: all episodes' windows, shuffled anew for each pass."""

    def __init__(self, demonstrations: Demonstrations, last_step: int, batch: int, seed: int):
        ends = [(e.begin, max(e.begin + 1, e.end - last_step + 1)) for e in demonstrations.episodes]
        self._windows = np.concatenate([np.arange(begin, end) for begin, end in ends])
        self._batch, self._seed = batch, seed
        self._passes: dict[int, Rows] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def rows(self, first: int, count: int) -> Rows:
        """Frame indices (count, batch) of the steps first .. first + count - 1."""
        n = len(self._windows)
        drawn = np.arange(first * self._batch, (first + count) * self._batch)
        out = np.empty(len(drawn), dtype=np.int64)
        for k in range(int(drawn[0]) // n, int(drawn[-1]) // n + 1):
            inside = drawn // n == k
            out[inside] = self._pass(k)[drawn[inside] % n]
        return out.reshape(count, self._batch)

    def _pass(self, k: int) -> Rows:
        if k not in self._passes:
            self._passes = {j: p for j, p in self._passes.items() if j >= k - 1}
            self._passes[k] = np.random.default_rng((self._seed, k)).permutation(self._windows)
        return self._passes[k]


class DeviceImages:
    """All images on the device; a step gathers its own."""

    def __init__(self, demonstrations: Demonstrations, device: torch.device):
        images = [torch.from_numpy(np.array(i)).to(device) for i in demonstrations.images]
        self._frames = torch.cat(images)

    def prepare(self, step: int) -> None:
        """Nothing to do: everything is there."""

    def gather(self, frames: Tensor) -> Tensor:
        """(B, steps) frame indices -> (B, steps, cameras, H, W, 3) uint8."""
        return self._frames[frames]

    def crop(self, frames: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """The same, each image cut to its rows and columns (B, steps, cameras, crop)."""
        cameras = torch.arange(self._frames.shape[1], device=frames.device)
        return self._frames[
            frames[:, :, None, None, None],
            cameras[:, None, None],
            rows[..., :, None],
            columns[..., None, :],
        ]

    def close(self) -> None:
        """Nothing to stop."""


class MappedImages:
    """Images stay in memory-mapped files, of one dataset or of many; threads read ahead while the
    device works. Neither the device nor the memory need hold them all.
    """

    def __init__(
        self,
        demonstrations: Demonstrations,
        order: Order,
        offsets: Tensor,
        begins: Rows,
        batch: int,
        device: torch.device,
    ):
        self._maps, self._frame_rows = demonstrations.images, demonstrations.rows
        self._order, self._offsets, self._begins = order, offsets.cpu().numpy(), begins
        self._firsts = np.cumsum([0, *(len(i) for i in demonstrations.images)])
        shape = (batch, len(self._offsets), *demonstrations.images[0].shape[1:])
        self._buffer = torch.zeros(shape, dtype=torch.uint8, device=device)
        self._shape, self._pinned = shape, device.type == "cuda"
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="capex-frames")
        self._ready: deque[tuple[int, Future[Tensor]]] = deque()

    def prepare(self, step: int) -> None:
        """Put the step's images into the buffer that the step reads."""
        if self._ready and self._ready[0][0] != step:  # the step before was only warmed up with
            self._ready.clear()
        last = self._ready[-1][0] if self._ready else step - 1
        for ahead in range(last + 1, step + PREFETCH):
            # Here: the order keeps the shuffles of two passes only.
            rows = self._order.rows(ahead, 1)[0]
            self._ready.append((ahead, self._readers.submit(self._read, rows)))
        _, images = self._ready.popleft()
        self._buffer.copy_(images.result(), non_blocking=True)

    def gather(self, frames: Tensor) -> Tensor:
        """The buffer; `prepare` has filled it with these frames."""
        return self._buffer

    def crop(self, frames: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """The buffer, each image cut to its rows and columns (B, steps, cameras, crop)."""
        b, s, c = (torch.arange(n, device=rows.device) for n in self._shape[:3])
        return self._buffer[
            b[:, None, None, None, None],
            s[:, None, None, None],
            c[:, None, None],
            rows[..., :, None],
            columns[..., None, :],
        ]

    def close(self) -> None:
        """Stop reading ahead."""
        self._readers.shutdown(cancel_futures=True)

    def _read(self, rows: Rows) -> Tensor:
        looked = np.maximum(rows[:, None] + self._offsets, self._begins[rows][:, None])
        frames = self._frame_rows[looked]
        batch = torch.empty(self._shape, dtype=torch.uint8, pin_memory=self._pinned)
        view = batch.numpy()
        for at in np.ndindex(*frames.shape):
            k = int(np.searchsorted(self._firsts, frames[at], side="right")) - 1
            view[at] = self._maps[k][frames[at] - self._firsts[k]]
        return batch


class Batches:
    """Everything a training step reads. `load` may run inside a CUDA graph."""

    def __init__(
        self,
        demonstrations: Demonstrations,
        spec: PolicySpec,
        device: torch.device,
        seed: int,
        on_device: bool,
    ):
        settings = spec.settings
        self._spec, self._settings, self._device = spec, settings, device
        self.order = Order(demonstrations, settings.last_step, settings.batch, seed)
        begins = np.zeros(len(demonstrations.states), dtype=np.int64)
        ends, words = np.zeros_like(begins), np.zeros_like(begins)
        for e in demonstrations.episodes:
            begins[e.begin : e.end], ends[e.begin : e.end] = e.begin, e.end
            words[e.begin : e.end] = spec.instruction_row(e.instruction)
        self._begins, self._ends, self._words = (
            torch.from_numpy(v).to(device) for v in (begins, ends, words)
        )
        normalizer = spec.normalizer
        self._states = torch.from_numpy(normalizer.state_in(demonstrations.states)).to(device)
        self._actions = torch.from_numpy(normalizer.action.apply(demonstrations.actions)).to(device)
        self._scale = torch.from_numpy(normalizer.image.scale).to(device)
        self._offset = torch.from_numpy(normalizer.image.offset).to(device)
        self._looks = torch.tensor(settings.observation_steps, device=device)
        self._acts = torch.tensor(settings.action_steps, device=device)
        self._size, self._cameras = demonstrations.size, len(demonstrations.cameras)
        self._frame_rows = torch.from_numpy(demonstrations.rows).to(device)
        self.images: DeviceImages | MappedImages
        if on_device:
            self.images = DeviceImages(demonstrations, device)
        else:
            self.images = MappedImages(
                demonstrations, self.order, self._looks, begins, settings.batch, device
            )
        self._rows = torch.zeros((ROWS_AHEAD, settings.batch), dtype=torch.int64, device=device)
        self._sent = -1

    def prepare(self, step: int) -> None:
        """Before a step, outside any graph: send its indices and images, where they are missing."""
        block = step // ROWS_AHEAD
        if block != self._sent:
            self._rows.copy_(torch.from_numpy(self.order.rows(block * ROWS_AHEAD, ROWS_AHEAD)))
            self._sent = block
        self.images.prepare(step)

    def load(self, step: Tensor) -> ActBatch | DiffusionBatch:
        """The batch of a step (a scalar on the device): gathered, cropped, normalised."""
        now = self._rows.index_select(0, (step % ROWS_AHEAD)[None])[0]  # (B,)
        begin, end = self._begins[now][:, None], self._ends[now][:, None]
        looked = torch.maximum(now[:, None] + self._looks, begin)
        ahead = now[:, None] + self._acts
        images = self._normalised(looked)
        actions = self._actions[torch.minimum(torch.maximum(ahead, begin), end - 1)]
        states = self._states[looked]
        if isinstance(self._settings, ActSettings):
            return ActBatch(images[:, 0], states[:, 0], actions, ahead >= end)
        return DiffusionBatch(images, states, self._words[now], actions)

    def _normalised(self, frames: Tensor) -> Tensor:
        """(B, steps) frame indices -> (B, steps, cameras, 3, H, W) float, cropped at random."""
        stored, left = self._frame_rows[frames], cropped(self._size, self._settings.crop)
        if left == self._size:
            raw = self.images.gather(stored)
        else:
            rows, columns = self._corners(left, (*frames.shape, self._cameras))
            raw = self.images.crop(stored, rows, columns)
        # A permuted view, no copy: convolutions are fastest with colours last in memory.
        return (raw * self._scale + self._offset).permute(0, 1, 2, 5, 3, 4)

    def _corners(self, left: tuple[int, int], shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Random rows and columns (.., height) and (.., width) of what a crop leaves."""
        device, (width, height) = self._device, left
        spare = [side - kept + 1 for side, kept in zip(self._size, left, strict=True)]
        if spare[0] == spare[1]:  # one draw, as square images always had
            down, right = torch.randint(0, spare[0], (2, *shape), device=device)
        else:
            right, down = (torch.randint(0, n, shape, device=device) for n in spare)
        rows = down[..., None] + torch.arange(height, device=device)
        return rows, right[..., None] + torch.arange(width, device=device)

    def close(self) -> None:
        """Stop what reads ahead."""
        self.images.close()
