"""Group norm with its shortcut and rectifier as fused kernels, in the memory order that convolutions prefer (colours last).

torch's own group norm on a GPU wants the other order, so every call would copy its input there and back, in single precision under
autocast; that was most of a training step. Groups are 16 channels wide. Needs Triton, which torch's CUDA builds bring along; anywhere else
`norm_act` uses torch's functions. Both give the same numbers to rounding.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 16  # channels of a group
CHUNK = 1024  # pixels that one program normalises
AVAILABLE = importlib.util.find_spec("triton") is not None


def norm_act(norm: nn.GroupNorm, x: Tensor, shortcut: Tensor | None = None, relu: bool = True) -> Tensor:
    """relu(group_norm(x) + shortcut); shortcut and rectifier are optional."""
    if AVAILABLE and x.is_cuda and x.shape[1] // norm.num_groups == WIDTH and x.dtype == norm.weight.dtype:
        out: Tensor = _Fused.apply(x, norm.weight, norm.bias, shortcut, norm.eps, relu)  # type: ignore[no-untyped-call]
        return out
    out = F.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps)
    if shortcut is not None:
        out = out + shortcut
    return F.relu(out) if relu else out


if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def _sums(x, sums, pixels, channels, chunks, WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        """Sum and sum of squares of one chunk of one group, about the group's first value."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        about = tl.load(x + base).to(tl.float32)
        total = tl.zeros((BLOCK, WIDTH), tl.float32)
        squares = tl.zeros((BLOCK, WIDTH), tl.float32)
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            v = tl.load(x + base + rows[:, None] * channels + across[None, :], mask=inside, other=0.0).to(tl.float32)
            d = tl.where(inside, v - about, 0.0)
            total += d
            squares += d * d
        tl.store(sums + (group * chunks + chunk) * 2, tl.sum(tl.sum(total, 1), 0))
        tl.store(sums + (group * chunks + chunk) * 2 + 1, tl.sum(tl.sum(squares, 1), 0))

    @triton.jit  # type: ignore[untyped-decorator]
    def _apply(  # type: ignore[no-untyped-def]
        x, shortcut, weight, bias, sums, y, moments, pixels, channels, chunks, eps,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, MAX: tl.constexpr, SHORTCUT: tl.constexpr, RELU: tl.constexpr,
    ):  # fmt: skip
        """Normalise one chunk of one group, add the shortcut, rectify; the first chunk also stores mean and inverse deviation."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        every = tl.arange(0, MAX)
        count = pixels * WIDTH
        total = tl.sum(tl.load(sums + (group * chunks + every) * 2, mask=every < chunks, other=0.0), 0) / count
        square = tl.sum(tl.load(sums + (group * chunks + every) * 2 + 1, mask=every < chunks, other=0.0), 0) / count
        mean = total + tl.load(x + base).to(tl.float32)
        inverse = 1.0 / tl.sqrt(tl.maximum(square - total * total, 0.0) + eps)
        if chunk == 0:
            tl.store(moments + group * 2, mean)
            tl.store(moments + group * 2 + 1, inverse)
        w = tl.load(weight + (group % groups) * WIDTH + across).to(tl.float32)
        b = tl.load(bias + (group % groups) * WIDTH + across).to(tl.float32)
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            place = base + rows[:, None] * channels + across[None, :]
            v = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            out = (v - mean) * inverse * w[None, :] + b[None, :]
            if SHORTCUT:
                out += tl.load(shortcut + place, mask=inside, other=0.0).to(tl.float32)
            if RELU:
                out = tl.maximum(out, 0.0)
            tl.store(y + place, out.to(y.dtype.element_ty), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _back_sums(  # type: ignore[no-untyped-def]
        dy, y, x, moments, sums, pixels, channels, chunks,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, RELU: tl.constexpr,
    ):  # fmt: skip
        """Per channel of one chunk: the sums of the gradient and of gradient times normalised input."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        mean, inverse = tl.load(moments + group * 2), tl.load(moments + group * 2 + 1)
        plain = tl.zeros((BLOCK, WIDTH), tl.float32)
        times = tl.zeros((BLOCK, WIDTH), tl.float32)
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            place = base + rows[:, None] * channels + across[None, :]
            d = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
            if RELU:
                d = tl.where(tl.load(y + place, mask=inside, other=0.0).to(tl.float32) > 0.0, d, 0.0)
            v = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            plain += d
            times += d * (v - mean) * inverse
        out = sums + (group * chunks + chunk) * 2 * WIDTH + across
        tl.store(out, tl.sum(plain, 0))
        tl.store(out + WIDTH, tl.sum(times, 0))

    @triton.jit  # type: ignore[untyped-decorator]
    def _back_apply(  # type: ignore[no-untyped-def]
        dy, y, x, weight, moments, sums, dx, dshortcut, pixels, channels, chunks,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, MAX: tl.constexpr, SHORTCUT: tl.constexpr, RELU: tl.constexpr,
    ):  # fmt: skip
        """Gradients of input and shortcut for one chunk: dx = inverse (w d - mean(w d) - xhat mean(w d xhat))."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        every = tl.arange(0, MAX)
        mean, inverse = tl.load(moments + group * 2), tl.load(moments + group * 2 + 1)
        w = tl.load(weight + (group % groups) * WIDTH + across).to(tl.float32)
        parts = sums + (group * chunks + every[:, None]) * 2 * WIDTH + across[None, :]
        there = (every < chunks)[:, None]
        plain = tl.sum(tl.sum(tl.load(parts, mask=there, other=0.0), 0) * w, 0) / (pixels * WIDTH)
        times = tl.sum(tl.sum(tl.load(parts + WIDTH, mask=there, other=0.0), 0) * w, 0) / (pixels * WIDTH)
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            place = base + rows[:, None] * channels + across[None, :]
            d = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
            if RELU:
                d = tl.where(tl.load(y + place, mask=inside, other=0.0).to(tl.float32) > 0.0, d, 0.0)
            if SHORTCUT:
                tl.store(dshortcut + place, d.to(dshortcut.dtype.element_ty), mask=inside)
            v = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            out = inverse * (d * w[None, :] - plain - (v - mean) * inverse * times)
            tl.store(dx + place, out.to(dx.dtype.element_ty), mask=inside)


class _Fused(torch.autograd.Function):
    """The four kernels as one differentiable function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None, eps: float, relu: bool) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if shortcut is not None:
            shortcut = shortcut.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = x.shape
        pixels, groups = height * width, n * channels // WIDTH
        chunks = -(-pixels // CHUNK)
        sizes = {"WIDTH": WIDTH, "CHUNK": min(CHUNK, triton.next_power_of_2(pixels)), "BLOCK": min(256, triton.next_power_of_2(pixels))}
        most = max(2, triton.next_power_of_2(chunks))
        y = torch.empty_like(x)
        sums, moments = x.new_empty((groups, chunks, 2), dtype=torch.float32), x.new_empty((groups, 2), dtype=torch.float32)
        _sums[(groups, chunks)](x, sums, pixels, channels, chunks, **sizes)
        other = x if shortcut is None else shortcut
        flags = {"MAX": most, "SHORTCUT": shortcut is not None, "RELU": relu}
        _apply[(groups, chunks)](x, other, weight, bias, sums, y, moments, pixels, channels, chunks, eps, **sizes, **flags)
        ctx.save_for_backward(x, y if relu else x, weight, moments)
        ctx.how = (chunks, sizes, flags)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, y, weight, moments = ctx.saved_tensors
        chunks, sizes, flags = ctx.how
        dy = dy.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = x.shape
        pixels, groups = height * width, n * channels // WIDTH
        sums = x.new_empty((groups, chunks, 2, WIDTH), dtype=torch.float32)
        _back_sums[(groups, chunks)](dy, y, x, moments, sums, pixels, channels, chunks, **sizes, RELU=flags["RELU"])
        dx = torch.empty_like(x)
        dshortcut = torch.empty_like(x) if flags["SHORTCUT"] else None
        other = dx if dshortcut is None else dshortcut
        _back_apply[(groups, chunks)](dy, y, x, weight, moments, sums, dx, other, pixels, channels, chunks, **sizes, **flags)
        totals = sums.view(n, channels // WIDTH, chunks, 2, WIDTH).sum(dim=(0, 2))  # (groups of an image, 2, WIDTH)
        dbias, dweight = (totals[:, k].reshape(channels).to(weight.dtype) for k in (0, 1))
        return dx, dweight, dbias, dshortcut, None, None
