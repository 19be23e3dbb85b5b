"""The denoiser's decoder for up to 64 trajectories at a time, as fused kernels.

A chunk of actions takes a hundred passes through twelve layers over ten tokens. On a GPU that is
all waiting: for small kernels, of which torch launches some twenty for each layer, here eight, and
for weights, of which no cache holds so many. They are read as half precision: it has the ten bits
of mantissa that a product of such a GPU keeps anyway, and range enough (what is nearer to 0 than
6e-5 loses bits). A product's programs also leave the mean and spread of their part of every row,
which the next norm needs.

Needs Triton and a GPU of capability 8.0 or more; anywhere else, and for more trajectories, torch's
functions are used. Both give the same numbers to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from capex.students.kernels import AVAILABLE  # which imports Triton first, and safely

if TYPE_CHECKING:
    from capex.students.diffusion import Denoiser, Layer

MOST = 64  # trajectories at a time, as many as a Runner asks for
FEW_ROWS = 64  # up to so many, more and smaller tiles are faster
TOKENS = 16  # a trajectory must not have more


class Tile(NamedTuple):
    """What one program takes of a product: rows, columns, and of their sum so much at a time."""

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3


class Halved(NamedTuple):
    """The matrix in half precision."""

    weight: Tensor
    bias: Tensor


class Residual(NamedTuple):
    """What passes from layer to layer: values (B, L, D), and of every row the mean and the sum of
    squares about it, by part.
    """

    values: Tensor
    moments: Tensor  # (B L, parts, 2)


if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def _half(values):  # type: ignore[no-untyped-def]
        """In half precision; what is too large for it becomes its largest number."""
        if values.dtype == tl.float32:
            kept = tl.clamp(values, -65504.0, 65504.0, propagate_nan=tl.PropagateNan.ALL)
            values = kept.to(tl.float16)
        return values

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
            a = _half(a)
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
        if out.dtype.element_ty == tl.float16:
            tl.store(out + place, _half(total), mask=inside)
        else:
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
        scores = tl.dot(queries, _half(there)) * scale
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
        tl.store(out + place, _half(tl.dot(_half(share), _half(values))), mask=row < length)


def usable(model: Denoiser, noisy: Tensor) -> bool:
    """Whether the kernels can take the place of torch's functions here."""
    dim, heads = model.head.in_features, next(iter(model.decoder)).self_attn.heads
    sizes = (dim, 4 * dim, dim // heads)
    return (
        AVAILABLE
        and noisy.is_cuda
        and noisy.dtype == torch.float32
        and noisy.is_contiguous()
        and not model.training
        and not torch.is_grad_enabled()
        and torch.cuda.get_device_capability(noisy.device) >= (8, 0)
        and len(noisy) <= MOST
        and noisy.shape[1] <= TOKENS
        and model.get_buffer("memory_mask").shape[1] <= TOKENS
        and all(s >= 16 and s & (s - 1) == 0 for s in sizes)
    )


class Fused:
    """A denoiser's estimate with its weights as they are now; made within what is captured."""

    def __init__(self, model: Denoiser):
        self._model = model
        self._embed, self._head = _halved(model.input_emb), _halved(model.head)
        self._layers = [_Layer(layer) for layer in model.decoder]

    def __call__(self, noisy: Tensor, memory: Tensor) -> Tensor:
        """Noise in (B, horizon, A) trajectories; memory (layers, 2, B, heads, tokens, D/heads)."""
        place = self._model.pos_emb.expand(len(noisy), -1, -1).contiguous()
        stream = _write(place, noisy, self._embed)
        mask = self._model.get_buffer("memory_mask")
        for layer, recalled in zip(self._layers, memory, strict=True):
            stream = layer(stream, recalled, mask)
        return _read(stream, self._model.ln_f, self._head, torch.float32)


class _Layer:
    def __init__(self, layer: Layer):
        self._norms = layer.norm1, layer.norm2, layer.norm3
        attention, cross = layer.self_attn, layer.multihead_attn
        self._heads = attention.heads
        self._asks_itself = Halved(attention.in_proj_weight.half(), attention.in_proj_bias)
        self._after_itself = _halved(attention.out_proj)
        queries = slice(cross.dim)
        self._asks = Halved(cross.in_proj_weight[queries].half(), cross.in_proj_bias[queries])
        self._after = _halved(cross.out_proj)
        self._wide, self._narrow = _halved(layer.linear1), _halved(layer.linear2)

    def __call__(self, stream: Residual, memory: Tensor, mask: Tensor) -> Residual:
        packed = _read(stream, self._norms[0], self._asks_itself)
        attended = _self_attention(packed, self._heads)
        stream = _write(stream.values, attended, self._after_itself)
        attended = _cross_attention(_read(stream, self._norms[1], self._asks), memory, mask)
        stream = _write(stream.values, attended, self._after)
        hidden = _read(stream, self._norms[2], self._wide, gelu=True)
        return _write(stream.values, hidden, self._narrow)


def _halved(linear: nn.Linear) -> Halved:
    return Halved(linear.weight.half(), linear.bias)


def _write(residual: Tensor, x: Tensor, linear: Halved) -> Residual:
    """residual + x W^T + b, x (B, L, inputs)."""
    rows, outputs = x.shape[0] * x.shape[1], len(linear.weight)
    parts = outputs // tile_of(rows, x.shape[2], outputs).columns
    out = Residual(torch.empty_like(residual), residual.new_empty(rows, parts, 2))
    _multiply(x, linear, out.values, residual=residual, left=out.moments)
    return out


def _read(
    stream: Residual,
    norm: nn.LayerNorm,
    linear: Halved,
    dtype: torch.dtype = torch.float16,
    *,
    gelu: bool = False,
) -> Tensor:
    """gelu(norm(stream) W^T + b)."""
    batch, length, _ = stream.values.shape
    out = stream.values.new_empty(batch, length, len(linear.weight), dtype=dtype)
    _multiply(stream.values, linear, out, norm=norm, moments=stream.moments, gelu=gelu)
    return out


def _multiply(
    x: Tensor,
    linear: Halved,
    out: Tensor,
    *,
    norm: nn.LayerNorm | None = None,
    moments: Tensor | None = None,
    residual: Tensor | None = None,
    left: Tensor | None = None,
    gelu: bool = False,
) -> None:
    """`_project` for all of x; `moments` are those of x, `left` takes those of the result."""
    rows, inputs, outputs = x.shape[0] * x.shape[1], x.shape[2], len(linear.weight)
    tile = tile_of(rows, inputs, outputs)
    gamma, beta, eps = (x, x, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    _project[(triton.cdiv(rows, tile.rows), triton.cdiv(outputs, tile.columns))](
        x, x if moments is None else moments, gamma, beta, linear.weight, linear.bias,
        out if residual is None else residual, out, out if left is None else left, rows, outputs,
        eps,
        INPUTS=inputs, ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth,
        PARTS=0 if moments is None else moments.shape[1], GELU=gelu,
        RESIDUAL=residual is not None, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def tile_of(rows: int, inputs: int, outputs: int) -> Tile:
    """The tile that was fastest for a product of about this size on an H200, of those for which any
    GPU from capability 8.0 on has memory enough.
    """
    if rows <= FEW_ROWS:
        tile = Tile(16, 16, 128)  # programs enough to wait side by side
    elif outputs > 512:
        tile = Tile(16, 128, 64, stages=4)
    elif inputs > 512:
        tile = Tile(64, 16, 128)
    else:
        tile = Tile(16, 64, 128)
    depth = min(tile.depth, max(16, triton.next_power_of_2(inputs)))
    columns = min(tile.columns, max(16, triton.next_power_of_2(outputs)))
    return tile._replace(depth=depth, columns=columns)


def _self_attention(packed: Tensor, heads: int) -> Tensor:
    """packed (B, L, 3 D): queries, keys and values; each step sees those up to itself."""
    batch, length, dim = packed.shape[0], packed.shape[1], packed.shape[2] // 3
    width, out = dim // heads, packed.new_empty(batch, length, dim)
    q, k, v = packed[..., :dim], packed[..., dim : 2 * dim], packed[..., 2 * dim :]
    _attend[(batch, heads)](
        q, k, v, packed, out, length, length, 3 * dim, length * 3 * dim, width, 3 * dim,
        width**-0.5,
        WIDTH=width, TOKENS=TOKENS, CAUSAL=True, num_warps=1 if width <= 128 else 4,
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
        WIDTH=width, TOKENS=TOKENS, CAUSAL=False, num_warps=1 if width <= 128 else 4,
    )  # fmt: skip
    return out
