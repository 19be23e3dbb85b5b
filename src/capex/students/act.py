"""ACT, action chunking with transformers: one observation in, a chunk of actions out.

    z ~ q(z | state, actions)  while training, z = 0 afterwards
    memory = encoder([z, state, image features of every camera])
    actions = head(decoder(queries, memory))
    loss = mean |actions - target| + kl_weight * KL(q || N(0, 1))

q is a CVAE, a small transformer over [cls, state, actions]. The encoder's 2-D sine positions are
added at every layer. The mean is over steps inside the episode; padding counts in its size. With
`commands = classify` an output of two values is its log odds, and cross-entropy takes the place of
the distance.

Parameter names and arithmetic are those of LeRobot's ACT, which itself keeps the original's;
weights go either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capex.students.attention import Attention
from capex.students.resnet import ResNet18
from capex.students.settings import ActSettings


class ActBatch(NamedTuple):
    """Normalised inputs."""

    images: Tensor  # (B, cameras, 3, H, W)
    state: Tensor  # (B, S)
    actions: Tensor  # (B, chunk, A)
    padding: Tensor  # (B, chunk) bool


class FeedForward(nn.Module):
    """The second half of a transformer layer, a base of the layer so that parameter names match."""

    def __init__(self, settings: ActSettings):
        super().__init__()
        self.linear1 = nn.Linear(settings.dim, settings.feedforward)
        self.linear2 = nn.Linear(settings.feedforward, settings.dim)
        self.norm1, self.norm2 = nn.LayerNorm(settings.dim), nn.LayerNorm(settings.dim)
        self.dropout = settings.dropout

    def drop(self, x: Tensor) -> Tensor:
        """Dropout while training."""
        return F.dropout(x, self.dropout, self.training)

    def feed(self, x: Tensor) -> Tensor:
        """linear2(dropout(relu(linear1 x)))."""
        out: Tensor = self.linear2(self.drop(F.relu(self.linear1(x))))
        return out


class EncoderLayer(FeedForward):
    """Self-attention, positions added to queries and keys, then feed-forward; norms after each."""

    def __init__(self, settings: ActSettings):
        super().__init__(settings)
        self.self_attn = Attention(settings.dim, settings.heads, settings.dropout)

    def forward(self, x: Tensor, position: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, L, D), position broadcasting to it."""
        placed = x + position
        x = self.norm1(x + self.drop(self.self_attn(placed, placed, x, mask)))
        x = self.norm2(x + self.drop(self.feed(x)))
        return x


class DecoderLayer(FeedForward):
    """Self-attention among the queries, attention to the memory, feed-forward."""

    def __init__(self, settings: ActSettings):
        super().__init__(settings)
        self.norm3 = nn.LayerNorm(settings.dim)
        self.self_attn = Attention(settings.dim, settings.heads, settings.dropout)
        self.multihead_attn = Attention(settings.dim, settings.heads, settings.dropout)

    def forward(
        self, x: Tensor, query_position: Tensor, memory: Tensor, placed_memory: Tensor
    ) -> Tensor:
        """x (B, chunk, D), memory (B, L, D) and the same with its positions added."""
        placed = x + query_position
        x = self.norm1(x + self.drop(self.self_attn(placed, placed, x)))
        attended = self.multihead_attn(x + query_position, placed_memory, memory)
        x = self.norm2(x + self.drop(attended))
        x = self.norm3(x + self.drop(self.feed(x)))
        return x


class Encoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, settings: ActSettings, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(layers))

    def forward(self, x: Tensor, position: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, L, D)."""
        for layer in self.layers:
            x = layer(x, position, mask)
        return x


class Decoder(nn.Module):
    """A stack of decoder layers and a final norm."""

    def __init__(self, settings: ActSettings):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        self.norm = nn.LayerNorm(settings.dim)

    def forward(
        self, x: Tensor, query_position: Tensor, memory: Tensor, position: Tensor
    ) -> Tensor:
        """x (B, chunk, D), memory (B, L, D)."""
        placed_memory = memory + position
        for layer in self.layers:
            x = layer(x, query_position, memory, placed_memory)
        out: Tensor = self.norm(x)
        return out


class Command(NamedTuple):
    """An action that takes two values, normalised: given as a class, not as a number."""

    column: int
    low: float
    high: float


class ACT(nn.Module):
    """The network. `norm` says which normalisation the backbone has, `commands` which outputs are
    classes: their log odds of the higher value.
    """

    def __init__(
        self,
        settings: ActSettings,
        state_size: int,
        action_size: int,
        norm: str = "group",
        commands: Sequence[Command] = (),
    ):
        super().__init__()
        self.settings = settings
        dim = settings.dim
        self.backbone = ResNet18("frozen" if norm == "frozen" else "group", settings.width)
        self.vae_encoder = Encoder(settings, settings.vae_layers)
        self.vae_encoder_cls_embed = nn.Embedding(1, dim)
        self.vae_encoder_robot_state_input_proj = nn.Linear(state_size, dim)
        self.vae_encoder_action_input_proj = nn.Linear(action_size, dim)
        self.vae_encoder_latent_output_proj = nn.Linear(dim, 2 * settings.latent)
        self.register_buffer("vae_encoder_pos_enc", sine_positions(2 + settings.chunk, dim)[None])
        self.encoder = Encoder(settings, settings.encoder_layers)
        self.decoder = Decoder(settings)
        self.encoder_robot_state_input_proj = nn.Linear(state_size, dim)
        self.encoder_latent_input_proj = nn.Linear(settings.latent, dim)
        self.encoder_img_feat_input_proj = nn.Conv2d(self.backbone.channels, dim, 1)
        self.encoder_1d_feature_pos_embed = nn.Embedding(2, dim)
        self.decoder_pos_embed = nn.Embedding(settings.chunk, dim)
        self.action_head = nn.Linear(dim, action_size)
        is_class, low, spread = torch.zeros(3, action_size)
        for command in commands:
            is_class[command.column], low[command.column] = 1.0, command.low
            spread[command.column] = command.high - command.low
        for name, values in (("is_class", is_class > 0), ("low", low), ("spread", spread)):
            self.register_buffer(name, values, persistent=False)
        for parameter in (*self.encoder.parameters(), *self.decoder.parameters()):
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, images: Tensor, state: Tensor) -> Tensor:
        """Images (B, cameras, 3, H, W), state (B, S) -> actions (B, chunk, A), all normalised."""
        latent = state.new_zeros(len(state), self.settings.latent)
        return self.valued(self.decode(images, state, latent))

    def valued(self, outputs: Tensor) -> Tensor:
        """Outputs as actions: of a class the expected value."""
        expected = self.get_buffer("low") + outputs.sigmoid() * self.get_buffer("spread")
        return torch.where(self.get_buffer("is_class"), expected, outputs)

    def missed(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """By action, what outputs miss: the distance, of a class its cross-entropy."""
        apart = (outputs - actions).abs()
        higher = (actions - self.get_buffer("low")) > self.get_buffer("spread") / 2
        entropy = F.softplus(outputs) - outputs * higher
        return torch.where(self.get_buffer("is_class"), entropy, apart)

    def decode(self, images: Tensor, state: Tensor, latent: Tensor) -> Tensor:
        """The same with a given latent (B, latent)."""
        batch, cameras = images.shape[:2]
        dtype = self.action_head.weight.dtype
        images, state, latent = images.to(dtype), state.to(dtype), latent.to(dtype)
        # (B cameras, D, h, w).
        features = self.encoder_img_feat_input_proj(self.backbone(images.flatten(0, 1)))
        _, dim, height, width = features.shape
        grid = sine_grid(dim, height, width, features.device).to(dtype)  # (h w, D)
        # (B, cameras h w, D).
        features = features.flatten(2).transpose(1, 2).unflatten(0, (batch, cameras)).flatten(1, 2)
        latent_token = self.encoder_latent_input_proj(latent)[:, None]
        state_token = self.encoder_robot_state_input_proj(state)[:, None]
        tokens = torch.cat([latent_token, state_token, features], dim=1)
        position = torch.cat([self.encoder_1d_feature_pos_embed.weight, grid.repeat(cameras, 1)])
        memory = self.encoder(tokens, position[None])
        queries = self.decoder_pos_embed.weight[None]
        blank = torch.zeros_like(queries).expand(batch, -1, -1)
        actions: Tensor = self.action_head(self.decoder(blank, queries, memory, position[None]))
        return actions

    def infer(self, state: Tensor, actions: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and 2 log sigma of q(z | state, actions), both (B, latent)."""
        batch, dtype = len(state), self.action_head.weight.dtype
        state, actions = state.to(dtype), actions.to(dtype)
        cls = self.vae_encoder_cls_embed.weight[None].expand(batch, -1, -1)
        state_token = self.vae_encoder_robot_state_input_proj(state)[:, None]
        tokens = torch.cat([cls, state_token, self.vae_encoder_action_input_proj(actions)], dim=1)
        # (B, 2 + chunk).
        visible = torch.cat([padding.new_zeros(batch, 2), padding], dim=1).logical_not()
        position = self.get_buffer("vae_encoder_pos_enc").to(dtype)
        encoded = self.vae_encoder(tokens, position, visible[:, None, None])
        moments = self.vae_encoder_latent_output_proj(encoded[:, 0]).float()
        mean, log_variance = moments.chunk(2, dim=1)
        return mean, log_variance

    def loss(self, batch: ActBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The training loss and its parts."""
        mean, log_variance = self.infer(batch.state, batch.actions, batch.padding)
        latent = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        predicted = self.decode(batch.images, batch.state, latent).float()
        l1 = (self.missed(predicted, batch.actions) * ~batch.padding[..., None]).mean()
        kl = (-0.5 * (1 + log_variance - mean**2 - log_variance.exp())).sum(dim=1).mean()
        return l1 + self.settings.kl_weight * kl, {"l1": l1, "kl": kl}


class Ensembler:
    """A step's action is the mean of all chunks' predictions for it, weighted w_i = exp(-c i) with
    i = 0 for the oldest.
    """

    def __init__(self, coefficient: float, chunk: int):
        self._coefficient, self._chunk, self._count = coefficient, chunk, 0
        # The last chunks (chunk, chunk, A) in turn; small arrays, which torch is slow with.
        self._chunks: npt.NDArray[np.float32] | None = None

    def update(self, actions: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Take a new chunk (chunk, A), give this step's action (A)."""
        if self._chunks is None:
            self._chunks = np.zeros((self._chunk, *actions.shape), dtype=np.float32)
        self._chunks[self._count % self._chunk] = actions
        self._count += 1
        ages = np.arange(min(self._count, self._chunk) - 1, -1, -1)  # the oldest first
        predictions = self._chunks[(self._count - 1 - ages) % self._chunk, ages]
        weights = np.exp(-self._coefficient * np.arange(len(ages), dtype=np.float32))
        mean: npt.NDArray[np.float32] = (predictions * weights[:, None]).sum(axis=0) / weights.sum()
        return mean


def sine_positions(length: int, dim: int) -> Tensor:
    """Sine positions (length, dim): sin and cos interleaved, wavelengths 2 pi to 10000 * 2 pi."""
    exponent = 2 * (torch.arange(dim, dtype=torch.float64) // 2) / dim
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000**exponent
    angle[:, 0::2], angle[:, 1::2] = angle[:, 0::2].sin(), angle[:, 1::2].cos()
    return angle.float()


def sine_grid(dim: int, height: int, width: int, device: torch.device) -> Tensor:
    """2-D sine positions (height * width, dim) over (0, 2 pi]: rows, then columns, half each."""
    half = dim // 2
    frequency = 10000 ** (2 * (torch.arange(half, dtype=torch.float32, device=device) // 2) / half)

    def encode(count: int) -> Tensor:
        steps = torch.arange(1, count + 1, dtype=torch.float32, device=device)
        angle = (steps / (steps[-1] + 1e-6) * (2 * math.pi))[:, None] / frequency
        # (count, half).
        return torch.stack((angle[:, 0::2].sin(), angle[:, 1::2].cos()), dim=-1).flatten(1)

    rows = encode(height)[:, None].expand(-1, width, -1)
    columns = encode(width)[None].expand(height, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1)
