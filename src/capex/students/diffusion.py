"""Diffusion Policy: a transformer denoises a short trajectory of actions, conditioned on two
observations and the instruction.

    condition = [time] + per observation: features of every camera, state, instruction
    memory = encoder(condition)
    estimate = head(decoder(noisy actions, memory)), causal; 10 steps, of which 8 are executed
    training: x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) e,  loss = mean (e - estimate)^2
    sampling: DDPM, 100 steps

Each camera has its own ResNet-18 with group norm, modulated by the instruction, then spatial
softmax and a linear layer. The denoiser's parameter names are those of diffusion_policy's
TransformerForDiffusion, which RoboCasa365's released checkpoint holds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capex.students import decoder
from capex.students.attention import Attention
from capex.students.resnet import ResNet18
from capex.students.settings import DiffusionSettings

BETA_MAX = 0.999


class DiffusionBatch(NamedTuple):
    """Normalised inputs."""

    images: Tensor  # (B, steps, cameras, 3, H, W)
    state: Tensor  # (B, steps, S)
    words: Tensor  # (B,), rows of instructions
    actions: Tensor  # (B, horizon, A)


class Schedule(nn.Module):
    """DDPM: squared-cosine schedule, noise prediction, clipped samples, small posterior variance.

    abar(t) = cos^2((t + 0.008)/1.008 pi/2),  beta_t = min(1 - abar(t+1)/abar(t), 0.999)
    x_{t-1} = sqrt(abar_{t-1}) beta_t/(1 - abar_t) x_0
              + sqrt(alpha_t) (1 - abar_{t-1})/(1 - abar_t) x_t + sigma_t e
    """

    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

        def bar(t: float) -> float:
            return math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2

        betas = [min(1 - bar((i + 1) / steps) / bar(i / steps), BETA_MAX) for i in range(steps)]
        kept = torch.cumprod(1 - torch.tensor(betas, dtype=torch.float32), dim=0)  # abar
        before = torch.cat([torch.ones(1), kept[:-1]])
        alpha = kept / before
        variance = ((1 - before) / (1 - kept) * (1 - alpha)).clamp(min=1e-20)
        tables = {
            "signal": kept.sqrt(),
            "noise": (1 - kept).sqrt(),
            "from_clean": before.sqrt() * (1 - alpha) / (1 - kept),
            "from_noisy": alpha.sqrt() * (1 - before) / (1 - kept),
            "sigma": torch.where(torch.arange(steps) > 0, variance.sqrt(), 0.0),
        }
        for name, table in tables.items():
            self.register_buffer(name, table, persistent=False)

    def add_noise(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """x_t for clean (B, ..) and steps t (B,)."""
        shape = (-1, *(1,) * (clean.dim() - 1))
        signal, spread = (self.get_buffer(name)[t].view(shape) for name in ("signal", "noise"))
        return signal * clean + spread * noise

    def step(self, estimate: Tensor, t: int, sample: Tensor, fresh: Tensor) -> Tensor:
        """x_{t-1} from x_t at step t, estimated noise and fresh unit noise."""
        table = self.get_buffer
        clean = ((sample - table("noise")[t] * estimate) / table("signal")[t]).clamp(-1.0, 1.0)
        known = table("from_clean")[t] * clean + table("from_noisy")[t] * sample
        return torch.addcmul(known, table("sigma")[t], fresh)


class CameraEncoder(nn.Module):
    """One camera: ResNet-18, each keypoint's expected position (spatial softmax), linear layer."""

    def __init__(self, settings: DiffusionSettings):
        super().__init__()
        self.backbone = ResNet18("group", settings.width, settings.language)
        self.keypoints = nn.Conv2d(self.backbone.channels, settings.keypoints, 1)
        self.linear = nn.Linear(2 * settings.keypoints, settings.features)

    def forward(self, images: Tensor, instruction: Tensor) -> Tensor:
        """Images (B, 3, crop, crop), instruction (B, L) -> (B, features)."""
        heat = self.keypoints(self.backbone(images, instruction))  # (B, K, h, w)
        rows, columns = (torch.linspace(-1.0, 1.0, n, device=heat.device) for n in heat.shape[2:])
        share = heat.flatten(2).float().softmax(dim=-1).unflatten(2, heat.shape[2:])
        # (B, K, 2) as x, y.
        points = torch.stack([share.sum(dim=2) @ columns, share.sum(dim=3) @ rows], dim=2)
        return F.relu(self.linear(points.flatten(1).to(heat.dtype)))


class Layer(nn.Module):
    """A pre-norm transformer layer; with `memory`, it attends to a condition after itself."""

    def __init__(self, settings: DiffusionSettings, memory: bool):
        super().__init__()
        dim = settings.dim
        self.dropout = settings.dropout
        self.self_attn = Attention(dim, settings.heads, settings.dropout)
        self.linear1, self.linear2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        if memory:
            self.multihead_attn = Attention(dim, settings.heads, settings.dropout)
            self.norm3 = nn.LayerNorm(dim)

    def drop(self, x: Tensor) -> Tensor:
        """Dropout while training."""
        return F.dropout(x, self.dropout, self.training)

    def recall(self, x: Tensor) -> Tensor:
        """Keys and values of a condition x (B, L, D): (2, B, heads, L, D/heads)."""
        return self.multihead_attn.project(x, 1, 2)

    def forward(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """x (B, L, D), causal with a memory (keys and values), which `mask` restricts by step."""
        normed = self.norm1(x)
        x = x + self.drop(self.self_attn(normed, normed, normed, causal=memory is not None))
        last = self.norm2
        if memory is not None:
            (queries,) = self.multihead_attn.project(self.norm2(x), 0, 0)
            keys, values = memory.unbind()
            x = x + self.drop(self.multihead_attn.attend(queries, keys, values, mask))
            last = self.norm3
        return x + self.drop(self.linear2(self.drop(F.gelu(self.linear1(last(x))))))


class Stack(nn.Module):
    """Layers in order."""

    def __init__(self, settings: DiffusionSettings, layers: int, memory: bool):
        super().__init__()
        self.layers = nn.ModuleList(Layer(settings, memory) for _ in range(layers))

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)  # type: ignore[arg-type]  # a list of Layer


class Denoiser(nn.Module):
    """The transformer that estimates the noise in a trajectory."""

    def __init__(self, settings: DiffusionSettings, action_size: int, condition_size: int):
        super().__init__()
        dim, horizon, tokens = settings.dim, settings.horizon, 1 + settings.observations
        self.input_emb = nn.Linear(action_size, dim)
        self.pos_emb = nn.Parameter(torch.zeros(1, horizon, dim))
        self.cond_obs_emb = nn.Linear(condition_size, dim)
        self.cond_pos_emb = nn.Parameter(torch.zeros(1, tokens, dim))
        self.encoder = Stack(settings, settings.condition_layers, memory=False)
        self.decoder = Stack(settings, settings.layers, memory=True)
        self.ln_f = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, action_size)
        step, token = torch.arange(horizon)[:, None], torch.arange(tokens)[None]
        # The time token comes first.
        hidden = torch.zeros(horizon, tokens).masked_fill(step < token - 1, -math.inf)
        self.register_buffer("memory_mask", hidden, persistent=False)
        frequency = torch.exp(torch.arange(dim // 2) * -(math.log(10000) / (dim // 2 - 1)))
        self.register_buffer("frequency", frequency, persistent=False)
        self.apply(_initialise)
        nn.init.normal_(self.pos_emb, std=0.02)
        nn.init.normal_(self.cond_pos_emb, std=0.02)

    def forward(self, noisy: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """noisy (B, horizon, A), t (B,), condition (B, observations, C) -> the noise in it."""
        return self.estimate(noisy, self.remember(t, condition))

    def remember(self, t: Tensor, condition: Tensor) -> list[Tensor]:
        """What each layer of the decoder attends to: (2, B, heads, 1 + observations, D/heads)."""
        angle = t[:, None] * self.get_buffer("frequency")
        # (B, 1, D).
        time = torch.cat([angle.sin(), angle.cos()], dim=1)[:, None].to(condition.dtype)
        x = torch.cat([time, self.cond_obs_emb(condition)], dim=1) + self.cond_pos_emb
        for layer in self.encoder:
            x = layer(x)
        return [layer.recall(x) for layer in self.decoder]

    def estimate(self, noisy: Tensor, memory: Sequence[Tensor] | Tensor) -> Tensor:
        """The noise in the actions, given each layer's memory of their step."""
        x = self.input_emb(noisy) + self.pos_emb
        mask = self.get_buffer("memory_mask").to(x.dtype)
        for layer, recalled in zip(self.decoder, memory, strict=True):
            x = layer(x, recalled, mask)
        estimate: Tensor = self.head(self.ln_f(x))
        return estimate


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, Attention):
        nn.init.normal_(module.in_proj_weight, std=0.02)


def beside(works: Sequence[Callable[[], Tensor]], device: torch.device) -> list[Tensor]:
    """Results of independent work, side by side on a CUDA device: small kernels fill gaps.

    Gradients flow back on the same streams: a captured training step keeps the branches both ways.
    """
    if device.type != "cuda":
        return [work() for work in works]
    here = torch.cuda.current_stream(device)
    results = []
    for k, work in enumerate(works):
        if k == 0:
            results.append(work())
            continue
        stream = _stream(device, here.cuda_stream, k)
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            results.append(work())
    for k in range(1, len(works)):
        here.wait_stream(_stream(device, here.cuda_stream, k))
    return results


@functools.cache
def _stream(device: torch.device, beside: int, k: int) -> torch.cuda.Stream:
    """The k-th stream beside another one; work on different streams never shares them."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class Diffusion(nn.Module):
    """The policy. `instructions` embeds those that it was trained on, by row: a table, learned or
    given, or an encoder of words.
    """

    instructions: nn.Module

    def __init__(
        self, settings: DiffusionSettings, cameras: int, state_size: int, action_size: int
    ):
        super().__init__()
        self.settings = settings
        self.cameras = nn.ModuleList(CameraEncoder(settings) for _ in range(cameras))
        condition = cameras * settings.features + state_size + settings.language
        self.model = Denoiser(settings, action_size, condition)
        self.schedule = Schedule(settings.diffusion_steps)
        self.set_table(0, learned=True)

    def set_table(self, instructions: int, *, learned: bool) -> None:
        """One embedding for each instruction; the last row stands for any other."""
        table = nn.Embedding(instructions + 1, self.settings.language)
        nn.init.normal_(table.weight, std=0.02)
        table.weight.requires_grad_(learned)
        self.instructions = table

    def condition(self, images: Tensor, state: Tensor, embedding: Tensor) -> Tensor:
        """Images (B, steps, cameras, 3, H, W), state (B, steps, S), the instructions' embeddings
        (B, L) -> (B, steps, C).
        """
        batch, steps = state.shape[:2]
        # (B steps, L).
        instruction = embedding[:, None].expand(-1, steps, -1).flatten(0, 1)
        images, state = images.to(instruction.dtype), state.to(instruction.dtype)
        views = [
            functools.partial(e, images[:, :, k].flatten(0, 1), instruction)
            for k, e in enumerate(self.cameras)
        ]
        seen = beside(views, images.device)
        return torch.cat([*seen, state.flatten(0, 1), instruction], dim=1).view(batch, steps, -1)

    def loss(self, batch: DiffusionBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The training loss; it has no parts."""
        embedding = self.instructions(batch.words)
        condition = self.condition(batch.images, batch.state, embedding)
        noise = torch.randn_like(batch.actions)
        t = torch.randint(0, self.schedule.steps, (len(noise),), device=noise.device)
        noisy = self.schedule.add_noise(batch.actions, noise, t).to(condition.dtype)
        estimate = self.model(noisy, t, condition)
        return F.mse_loss(estimate.float(), noise), {}

    def memories(self, condition: Tensor) -> Tensor:
        """The decoder's memory at every diffusion step, (steps, layers, 2, B, ..), in one pass."""
        steps, batch = self.schedule.steps, len(condition)
        t = torch.arange(steps, device=condition.device).repeat_interleave(batch)
        # (layers, 2, steps B, heads, L, d).
        memory = torch.stack(self.model.remember(t, condition.repeat(steps, 1, 1)))
        by_step = memory.view(*memory.shape[:2], steps, batch, *memory.shape[3:])
        return by_step.permute(2, 0, 1, 3, 4, 5, 6).contiguous()

    def sample(self, condition: Tensor, noise: Tensor) -> Tensor:
        """Denoise noise[0]; noise (1 + steps, B, horizon, A), from 1 on what each step adds."""
        memories, x = self.memories(condition), noise[0]
        fused = decoder.usable(self.model, x) and memories.dtype == torch.float32
        estimate = decoder.Fused(self.model) if fused else self.model.estimate
        for k, t in enumerate(range(self.schedule.steps - 1, -1, -1)):
            estimated = estimate(x.to(memories.dtype), memories[t]).float()
            x = self.schedule.step(estimated, t, x, noise[k + 1])
        return x
