"""One training step, all on the device: batch, loss, gradients, AdamW, the weights' moving average.

In bf16 the network computes with a rounded copy of its weights; AdamW and the average work on the
full ones. One copy of all weights per step replaces autocast's cast before every operation.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from capex.students.act import ACT, DecoderLayer, EncoderLayer
from capex.students.batches import Batches
from capex.students.device import working_dtype
from capex.students.diffusion import Diffusion, Layer
from capex.students.kernels import AVAILABLE
from capex.students.settings import ActSettings, DiffusionSettings, Settings

LOG_EVERY = 100
WARM_UP_STEPS = 3  # before a graph is captured; they leave no trace
ALIGNED = 64  # numbers; each tensor of a pool begins at a multiple
PARTS = {"act": ("loss", "l1", "kl"), "diffusion": ("loss",)}


class Trainer:
    """Network, optimiser, step counter. `one` runs a step; nothing in it waits for the device."""

    def __init__(
        self,
        net: ACT | Diffusion,
        settings: Settings,
        batches: Batches,
        steps: int,
        device: torch.device,
        dtype: torch.dtype | None = None,
    ):
        self.net, self.settings, self.batches, self.device = net, settings, batches, device
        dtype = dtype or working_dtype(settings.precision, device)
        self._worker = net if dtype == torch.float32 else copy_in(dtype, net)
        if device.type == "cuda" and AVAILABLE:
            fuse(self._worker)
        self.step = 0  # steps so far, known here; `done` is the same count on the device
        self.done = torch.zeros((), dtype=torch.int64, device=device)
        self.log = torch.zeros((LOG_EVERY, len(self.parts)), device=device)
        self._rates = _table(learning_rates(settings, steps), device)
        self._rate = torch.zeros((), device=device)
        groups = [{"params": p, "weight_decay": d} for p, d in parameter_groups(net, settings)]
        betas = (settings.beta1, settings.beta2)
        self.optimizer = torch.optim.AdamW(
            groups, lr=self._rate, betas=betas, fused=True, capturable=device.type == "cuda"
        )
        trained = self.optimizer.param_groups
        self.parameters: list[Tensor] = [p for group in trained for p in group["params"]]
        self._weights = pooled(self.parameters)
        for p in self.parameters:
            self.optimizer.state[p] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }
        twins = {id(p): q for p, q in zip(net.parameters(), self._worker.parameters(), strict=True)}
        self._working: list[Tensor] = [twins[id(p)] for p in self.parameters]
        self._rounded = self._weights if self._worker is net else pooled(self._working)
        self.average = [p.detach().clone() for p in self.parameters] if settings.ema_power else []
        self._average = pooled(self.average) if self.average else None
        self._shares = _table(average_shares(settings, steps), device)
        self._worker.train()

    @property
    def parts(self) -> tuple[str, ...]:
        """What the log's columns are."""
        return PARTS[self.settings.policy]

    def prepare(self) -> None:
        """Before a step, outside any graph."""
        self.batches.prepare(self.step)

    def losses(self) -> dict[str, float]:
        """Means over the steps of the log, at most LOG_EVERY; waits for the device."""
        rows = self.log[: (self.step - 1) % LOG_EVERY + 1].double().cpu().numpy()
        return dict(zip(self.parts, rows.mean(axis=0).tolist(), strict=True))

    def state_tensors(self) -> list[Tensor]:
        """Every tensor that a step changes, in a fixed order."""
        weights, names = [p.data for p in self.parameters], ("step", "exp_avg", "exp_avg_sq")
        moments = [self.optimizer.state[p][name] for p in self.parameters for name in names]
        return [self.done, self.log, self._rate, *weights, *moments, *self.average]

    def weights(self) -> dict[str, Tensor]:
        """What is deployed, by name: buffers, and weights or their moving average."""
        deployed = dict(self.net.state_dict())
        names = {id(p): name for name, p in self.net.named_parameters()}
        for p, mean in zip(self.parameters, self.average, strict=False):  # there may be none
            deployed[names[id(p)]] = mean
        return deployed

    def _at(self, table: Tensor) -> Tensor:
        return table.index_select(0, self.done[None])[0]  # plain indexing would wait for the device

    def forget(self) -> None:
        """Drop the gradients."""
        for p in (*self.parameters, *self._working):
            p.grad = None

    def one(self) -> None:
        """One step."""
        self._rate.copy_(self._at(self._rates))
        if self._worker is not self.net:
            self._rounded.copy_(self._weights)
        batch = self.batches.load(self.done)  # of the network's kind
        loss, parts = self._worker.loss(batch)  # type: ignore[arg-type]
        loss.backward()  # type: ignore[no-untyped-call]
        if self._worker is not self.net:
            full, rounded = [], []
            for p, w in zip(self.parameters, self._working, strict=True):
                p.grad = None
                if w.grad is not None:
                    p.grad = torch.empty_like(p)
                    full.append(p.grad)
                    rounded.append(w.grad)
            torch._foreach_copy_(full, rounded)
        if self.settings.clip_norm:
            nn.utils.clip_grad_norm_(self.parameters, self.settings.clip_norm, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            if self._average is not None:
                self._average.lerp_(self._weights, self._at(self._shares))
            row = torch.stack([loss.detach(), *(v.detach() for v in parts.values())]).float()
            self.log.index_copy_(0, (self.done % LOG_EVERY)[None], row[None])
            self.done += 1


def _table(values: npt.NDArray[np.float32], device: torch.device) -> Tensor:
    """A value for each step, and for those that a graph is warmed up with after the last."""
    return torch.from_numpy(np.pad(values, (0, WARM_UP_STEPS), mode="edge")).to(device)


def pooled(tensors: Sequence[Tensor]) -> Tensor:
    """Move tensors into one piece of memory: one operation on what is returned reaches all."""
    sizes = [-(-t.numel() // ALIGNED) * ALIGNED for t in tensors]
    pool = tensors[0].new_zeros(sum(sizes))
    ends = itertools.accumulate(sizes)
    for tensor, size, end in zip(tensors, sizes, ends, strict=True):
        moved = pool.as_strided(tensor.shape, tensor.stride(), end - size)
        moved.copy_(tensor.detach())
        tensor.data = moved
    return pool


def copy_in(dtype: torch.dtype, net: ACT | Diffusion) -> ACT | Diffusion:
    """The network with its parameters, not its tables, in another type."""
    twin = copy.deepcopy(net)
    for p in twin.parameters():
        p.data = p.data.to(dtype)
    return twin


def fuse(net: nn.Module) -> None:
    """Let torch write the kernels between a transformer's matrix products. A step of a small batch
    is as long as its kernels are many; layers of one kind and shape share what is compiled.
    """
    for module in net.modules():
        if isinstance(module, (Layer, EncoderLayer, DecoderLayer)):
            module.compile(dynamic=False)


def learning_rates(settings: Settings, steps: int) -> npt.NDArray[np.float32]:
    """The rate of each step: a linear warm-up, then constant or half a cosine down to zero."""
    step = np.arange(max(steps, 1))
    warm = np.minimum(1.0, (step + 1) / settings.warmup) if settings.warmup else np.ones(len(step))
    if settings.schedule == "cosine":
        share = np.clip((step - settings.warmup) / max(1, steps - settings.warmup), 0.0, 1.0)
        warm = warm * 0.5 * (1 + np.cos(math.pi * share))
    rates: npt.NDArray[np.float32] = (settings.lr * warm).astype(np.float32)
    return rates


def average_shares(settings: Settings, steps: int) -> npt.NDArray[np.float32]:
    """The new weights' share in the average by step: (1 + step)^-power, at least 1 - ema_max."""
    most = settings.ema_max if isinstance(settings, DiffusionSettings) else 0.9999
    shares = np.maximum((1.0 + np.arange(max(steps, 1))) ** -settings.ema_power, 1 - most)
    out: npt.NDArray[np.float32] = shares.astype(np.float32)
    return out


def parameter_groups(
    net: nn.Module, settings: Settings
) -> Iterator[tuple[list[nn.Parameter], float]]:
    """Parameters with their weight decay: ACT's all alike, Diffusion's in three groups."""
    named = [(n, p) for n, p in net.named_parameters() if p.requires_grad]
    if isinstance(settings, ActSettings):
        yield [p for _, p in named], settings.weight_decay
        return
    denoiser = [(n, p) for n, p in named if n.startswith("model.")]
    yield [p for n, p in denoiser if p.dim() == 2], settings.weight_decay
    yield [p for n, p in denoiser if p.dim() != 2], 0.0
    yield [p for n, p in named if not n.startswith("model.")], settings.encoder_weight_decay
