"""The denoiser's decoder for up to 64 trajectories at a time, as fused kernels.

A chunk of actions takes a hundred passes through twelve layers over ten tokens. On a GPU that is
all waiting for small kernels: torch launches some twenty for each layer, here there are eight.
A product's programs also leave the mean and spread of their part of every row, which the next norm
needs. Needs Triton; anywhere else, and for more trajectories, torch's functions are used. Both give
the same numbers to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from capex.students.kernels import AVAILABLE  # which imports Triton first, and safely

if TYPE_CHECKING:
    from capex.students.attention import Attention
    from capex.students.diffusion import Denoiser

MOST = 64  # trajectories at a time, as many as a Runner asks for
FEW_ROWS = 64  # up to so many, more and smaller tiles are faster
WARPS = 1  # of a program that attends
TOKENS = 16  # a trajectory must not have more


class Tile(NamedTuple):
    """What one program takes of a product: rows, columns, and of their sum so much at a time."""

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3


class Rows(NamedTuple):
    """Values (B, L, D), and of every row the mean and the sum of squares about it, by part."""

    values: Tensor
    moments: Tensor  # (B L, parts, 2)


if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def _project(  # type: ignore[no-untyped-def]
        x, moments, gamma, beta, weight, bias, residual, out, out_moments, rows, outputs, eps,
        INPUTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
        PARTS: tl.constexpr, GELU: tl.constexpr, RESIDUAL: tl.constexpr,
    ):  # fmt: skip
        """A tile of residual + gelu(norm(x) W^T + b); all but the product is optional. PARTS: of
        the moments to normalise with. With a residual, the tile's own moments are stored.
        """
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        here, wanted = row < rows, column < outputs
        if PARTS:
            part = (row * PARTS + tl.arange(0, PARTS)[None, :]) * 2
            means = tl.load(moments + part, mask=here, other=0.0)
            squares = tl.load(moments + part + 1, mask=here, other=0.0)
            mean = (tl.sum(means, 1) / PARTS)[:, None]
            away = means - mean
            spread = tl.sum(squares + away * away * (INPUTS // PARTS), 1) / INPUTS
            inverse = (1.0 / tl.sqrt(spread + eps))[:, None]
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, INPUTS, DEPTH):
            k = first + tl.arange(0, DEPTH)
            inside = k < INPUTS
            a = tl.load(x + row * INPUTS + k[None, :], mask=here & inside[None, :], other=0.0)
            if PARTS:
                scale, shift = tl.load(gamma + k)[None, :], tl.load(beta + k)[None, :]
                a = (a - mean) * inverse * scale + shift
            there = wanted[None, :] & inside[:, None]
            w = tl.load(weight + column[None, :] * INPUTS + k[:, None], mask=there, other=0.0)
            total = tl.dot(a, w, total)
        total += tl.load(bias + column, mask=wanted, other=0.0)[None, :]
        if GELU:
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        place, inside = row * outputs + column[None, :], here & wanted[None, :]
        if RESIDUAL:
            total += tl.load(residual + place, mask=inside, other=0.0)
            centre = tl.sum(total, 1) / COLUMNS
            beyond = total - centre[:, None]
            part = (row * (outputs // COLUMNS) + tl.program_id(1)) * 2
            tl.store(out_moments + part, centre[:, None], mask=here)
            tl.store(out_moments + part + 1, tl.sum(beyond * beyond, 1)[:, None], mask=here)
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
        and len(noisy) <= (MOST if torch.cuda.get_device_capability(noisy.device) >= (8, 0) else 4)
        and noisy.shape[1] <= TOKENS
        and model.get_buffer("memory_mask").shape[1] <= TOKENS
        and all(s >= 16 and s & (s - 1) == 0 for s in sizes)
    )


def estimate(model: Denoiser, noisy: Tensor, memory: Tensor) -> Tensor:
    """Noise in (B, horizon, A) trajectories; memory (layers, 2, B, heads, tokens, D/heads)."""
    place = model.pos_emb.expand(len(noisy), -1, -1).contiguous()
    x = _add(place, noisy, model.input_emb.weight, model.input_emb.bias)
    mask = model.get_buffer("memory_mask")
    for layer, keys_values in zip(model.decoder, memory, strict=True):
        attention, cross = layer.self_attn, layer.multihead_attn
        packed = _norm(layer.norm1, x, attention.in_proj_weight, attention.in_proj_bias)
        attended = _self_attention(packed, attention)
        x = _add(x.values, attended, attention.out_proj.weight, attention.out_proj.bias)
        asking = cross.in_proj_weight[: cross.dim], cross.in_proj_bias[: cross.dim]
        attended = _cross_attention(_norm(layer.norm2, x, *asking), keys_values, mask)
        x = _add(x.values, attended, cross.out_proj.weight, cross.out_proj.bias)
        hidden = _norm(layer.norm3, x, layer.linear1.weight, layer.linear1.bias, gelu=True)
        x = _add(x.values, hidden, layer.linear2.weight, layer.linear2.bias)
    return _norm(model.ln_f, x, model.head.weight, model.head.bias)


def _add(residual: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> Rows:
    """residual + x W^T + b, x (B, L, inputs)."""
    batch, length, inputs = x.shape
    rows, outputs = batch * length, len(weight)
    tile = tile_of(rows, inputs, outputs)
    out = x.new_empty(batch, length, outputs)
    moments = x.new_empty(rows, outputs // tile.columns, 2)
    _project[(triton.cdiv(rows, tile.rows), outputs // tile.columns)](
        x, x, x, x, weight, bias, residual, out, moments, rows, outputs, 0.0,
        INPUTS=inputs, ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
        PARTS=0, GELU=False, RESIDUAL=True, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return Rows(out, moments)


def _norm(
    norm: nn.LayerNorm, x: Rows, weight: Tensor, bias: Tensor, *, gelu: bool = False
) -> Tensor:
    """gelu(norm(x) W^T + b)."""
    batch, length, inputs = x.values.shape
    rows, outputs = batch * length, len(weight)
    tile = tile_of(rows, inputs, outputs)
    out = x.values.new_empty(batch, length, outputs)
    _project[(triton.cdiv(rows, tile.rows), triton.cdiv(outputs, tile.columns))](
        x.values, x.moments, norm.weight, norm.bias, weight, bias, out, out, out, rows, outputs,
        norm.eps,
        INPUTS=inputs, ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
        PARTS=x.moments.shape[1], GELU=gelu, RESIDUAL=False,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return out


def tile_of(rows: int, inputs: int, outputs: int) -> Tile:
    """The tile that was fastest for a product of about this size on an H200, of those for which any
    GPU from capability 8.0 on has memory enough.
    """
    if rows <= FEW_ROWS:
        tile = Tile(16, 16, 128)  # programs enough to wait side by side
    elif outputs > 1536:
        tile = Tile(64, 128, 32, warps=8)
    elif outputs > 512:
        tile = Tile(64, 64, 64)
    elif inputs > 512:
        tile = Tile(64, 32, 64, warps=8, stages=4)
    else:
        tile = Tile(64, 32, 32, warps=8, stages=4)
    depth = min(tile.depth, max(16, triton.next_power_of_2(inputs)))
    columns = min(tile.columns, max(16, triton.next_power_of_2(outputs)))
    return tile._replace(depth=depth, columns=columns)


def _self_attention(packed: Tensor, attention: Attention) -> Tensor:
    """packed (B, L, 3 D): queries, keys and values; each step sees those up to itself."""
    batch, length, _ = packed.shape
    dim, width = attention.dim, attention.dim // attention.heads
    out = packed.new_empty(batch, length, dim)
    q, k, v = packed[..., :dim], packed[..., dim : 2 * dim], packed[..., 2 * dim :]
    _attend[(batch, attention.heads)](
        q, k, v, packed, out, length, length, 3 * dim, length * 3 * dim, width, 3 * dim,
        width**-0.5,
        WIDTH=width, TOKENS=TOKENS, CAUSAL=True, num_warps=WARPS,
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
        WIDTH=width, TOKENS=TOKENS, CAUSAL=False, num_warps=WARPS,
    )  # fmt: skip
    return out
