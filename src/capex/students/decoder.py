"""The denoiser's decoder for a few trajectories at a time, as fused kernels.

A chunk of actions takes a hundred passes through twelve layers over ten tokens. On a GPU that is
all waiting for small kernels: torch launches some twenty for each layer, here there are eight.
Needs Triton; anywhere else, and for many trajectories at once, torch's functions are used. Both
give the same numbers to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from capex.students.kernels import AVAILABLE  # which imports Triton first, and safely

if TYPE_CHECKING:
    from capex.students.attention import Attention
    from capex.students.diffusion import Denoiser

MOST = 4  # trajectories at a time; with more, large matrix products are faster
TOKENS = 16  # rows of a tile; a trajectory must fit into one

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def _project(  # type: ignore[no-untyped-def]
        x, gamma, beta, weight, bias, residual, out, length, outputs, eps,
        INPUTS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, TOKENS: tl.constexpr,
        NORM: tl.constexpr, GELU: tl.constexpr, RESIDUAL: tl.constexpr,
    ):  # fmt: skip
        """Some columns of residual + gelu(norm(x) W^T + b); all but the product is optional."""
        row = tl.arange(0, TOKENS)[:, None]
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        here, wanted = row < length, column < outputs
        start = tl.program_id(0) * length
        if NORM:
            whole = tl.arange(0, INPUTS)[None, :]
            v = tl.load(x + (start + row) * INPUTS + whole, mask=here, other=0.0)
            mean = tl.sum(v, 1) / INPUTS
            away = v - mean[:, None]
            inverse = 1.0 / tl.sqrt(tl.sum(away * away, 1) / INPUTS + eps)
        total = tl.zeros((TOKENS, COLUMNS), tl.float32)
        for first in range(0, INPUTS, DEPTH):
            k = first + tl.arange(0, DEPTH)
            a = tl.load(x + (start + row) * INPUTS + k[None, :], mask=here, other=0.0)
            if NORM:
                a = (a - mean[:, None]) * inverse[:, None] * tl.load(gamma + k)[None, :] + tl.load(
                    beta + k
                )[None, :]
            w = tl.load(
                weight + column[None, :] * INPUTS + k[:, None], mask=wanted[None, :], other=0.0
            )
            total = tl.dot(a, w, total)
        total += tl.load(bias + column, mask=wanted, other=0.0)[None, :]
        if GELU:
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        place, inside = (start + row) * outputs + column[None, :], here & wanted[None, :]
        if RESIDUAL:
            total += tl.load(residual + place, mask=inside, other=0.0)
        tl.store(out + place, total, mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _attend(  # type: ignore[no-untyped-def]
        q, k, v, mask, out, length, keys, q_row, k_batch, k_head, k_row, scale,
        WIDTH: tl.constexpr, TOKENS: tl.constexpr, CAUSAL: tl.constexpr,
    ):  # fmt: skip
        """One head of one trajectory: softmax(scale q k^T + mask) v."""
        batch, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
        row, token = tl.arange(0, TOKENS)[:, None], tl.arange(0, TOKENS)[None, :]
        across = tl.arange(0, WIDTH)
        queries = tl.load(
            q + (batch * length + row) * q_row + head * WIDTH + across[None, :],
            mask=row < length,
            other=0.0,
        )
        base = batch * k_batch + head * k_head
        # (WIDTH, TOKENS).
        there = tl.load(k + base + token * k_row + across[:, None], mask=token < keys, other=0.0)
        scores = tl.dot(queries, there) * scale
        if CAUSAL:
            scores = tl.where(token <= row, scores, float("-inf"))
        else:
            scores += tl.load(
                mask + row * keys + token, mask=(row < length) & (token < keys), other=0.0
            )
            scores = tl.where(token < keys, scores, float("-inf"))
        share = tl.exp(scores - tl.max(scores, 1)[:, None])
        share = share / tl.sum(share, 1)[:, None]
        # (TOKENS, WIDTH).
        values = tl.load(v + base + row * k_row + across[None, :], mask=row < keys, other=0.0)
        place = (batch * length + row) * (heads * WIDTH) + head * WIDTH + across[None, :]
        tl.store(out + place, tl.dot(share, values), mask=row < length)


def usable(model: Denoiser, noisy: Tensor) -> bool:
    """Whether the kernels can take the place of torch's functions here."""
    dim, heads = model.head.in_features, next(iter(model.decoder)).self_attn.heads
    sizes = (dim, 4 * dim, dim // heads)
    return (
        AVAILABLE
        and noisy.is_cuda
        and noisy.dtype == torch.float32
        and not model.training
        and not torch.is_grad_enabled()
        and len(noisy) <= MOST
        and noisy.shape[1] <= TOKENS
        and model.get_buffer("memory_mask").shape[1] <= TOKENS
        and all(s >= 16 and s & (s - 1) == 0 for s in sizes)
    )


def estimate(model: Denoiser, noisy: Tensor, memory: Tensor) -> Tensor:
    """Noise in (B, horizon, A) trajectories; memory (layers, 2, B, heads, tokens, D/heads)."""
    x = model.input_emb(noisy) + model.pos_emb
    mask = model.get_buffer("memory_mask")
    for layer, keys_values in zip(model.decoder, memory, strict=True):
        attention, cross = layer.self_attn, layer.multihead_attn
        packed = _linear(x, attention.in_proj_weight, attention.in_proj_bias, norm=layer.norm1)
        attended = _self_attention(packed, attention)
        x = _linear(attended, attention.out_proj.weight, attention.out_proj.bias, residual=x)
        queries = _linear(
            x, cross.in_proj_weight[: cross.dim], cross.in_proj_bias[: cross.dim], norm=layer.norm2
        )
        attended = _cross_attention(queries, keys_values, mask)
        x = _linear(attended, cross.out_proj.weight, cross.out_proj.bias, residual=x)
        hidden = _linear(x, layer.linear1.weight, layer.linear1.bias, norm=layer.norm3, gelu=True)
        x = _linear(hidden, layer.linear2.weight, layer.linear2.bias, residual=x)
    return _linear(x, model.head.weight, model.head.bias, norm=model.ln_f)


def _linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    norm: nn.LayerNorm | None = None,
    residual: Tensor | None = None,
    gelu: bool = False,
) -> Tensor:
    """residual + gelu(norm(x) W^T + b), x (B, L, inputs)."""
    batch, length, inputs = x.shape
    outputs = len(weight)
    out = x.new_empty(batch, length, outputs)
    # What is not asked for is not read.
    gamma, beta, eps = (x, x, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    _project[(batch, triton.cdiv(outputs, 16))](
        x, gamma, beta, weight, bias, x if residual is None else residual, out, length, outputs,
        eps,
        INPUTS=inputs, COLUMNS=16, DEPTH=min(128, inputs), TOKENS=TOKENS,
        NORM=norm is not None, GELU=gelu, RESIDUAL=residual is not None, num_stages=3,
    )  # fmt: skip
    return out


def _self_attention(packed: Tensor, attention: Attention) -> Tensor:
    """packed (B, L, 3 D): queries, keys and values; each step sees those up to itself."""
    batch, length, _ = packed.shape
    dim, width = attention.dim, attention.dim // attention.heads
    out = packed.new_empty(batch, length, dim)
    q, k, v = packed[..., :dim], packed[..., dim : 2 * dim], packed[..., 2 * dim :]
    _attend[(batch, attention.heads)](
        q, k, v, packed, out, length, length, 3 * dim, length * 3 * dim, width, 3 * dim,
        width**-0.5,
        WIDTH=width, TOKENS=TOKENS, CAUSAL=True,
    )  # fmt: skip
    return out


def _cross_attention(queries: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    """queries (B, L, D), memory (2, B, heads, tokens, D/heads), mask (L, tokens) that is added."""
    batch, length, dim = queries.shape
    heads, tokens, width = memory.shape[2:]
    out = torch.empty_like(queries)
    _attend[(batch, heads)](
        queries, memory[0], memory[1], mask, out, length, tokens, dim, heads * tokens * width,
        tokens * width, width, width**-0.5,
        WIDTH=width, TOKENS=TOKENS, CAUSAL=False,
    )  # fmt: skip
    return out
