"""Group norm with what follows it (shortcut, rectifier, modulation) fused, colours last in memory.

torch's own group norm on a GPU wants the other order, so every call would copy its input there and
back, in single precision under autocast; that was most of a training step. Groups are 16 channels
wide. Needs Triton, which torch's CUDA builds bring along; anywhere else `norm_act` uses torch's
functions. Both give the same numbers to rounding.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 16  # channels of a group
BLOCK = 256  # pixels that one program holds at a time
CHUNK = 1024  # pixels that one program normalises
ScaleShift = tuple[Tensor, Tensor]  # each (B, C)
AVAILABLE = importlib.util.find_spec("triton") is not None


def norm_act(
    norm: nn.GroupNorm,
    x: Tensor,
    shortcut: Tensor | None = None,
    relu: bool = True,
    film: ScaleShift | None = None,
) -> Tensor:
    """relu(scale * relu(group_norm(x) + shortcut) + shift); all but the norm is optional."""
    if (
        AVAILABLE
        and x.is_cuda
        and x.shape[1] // norm.num_groups == WIDTH
        and x.dtype == norm.weight.dtype
    ):
        scale, shift = film or (None, None)
        out: Tensor = _Fused.apply(
            x, norm.weight, norm.bias, shortcut, scale, shift, norm.eps, relu
        )  # type: ignore[no-untyped-call]
        return out
    return act(
        F.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps), shortcut, relu, film
    )


def act(x: Tensor, shortcut: Tensor | None, relu: bool, film: ScaleShift | None) -> Tensor:
    """relu(scale * relu(x + shortcut) + shift), scale and shift per image and channel."""
    if shortcut is not None:
        x = x + shortcut
    if relu:
        x = F.relu(x)
    if film is not None:
        scale, shift = film
        x = F.relu(torch.addcmul(shift[:, :, None, None], scale[:, :, None, None], x))
    return x


if AVAILABLE:
    # Triton and Mesa's software OpenGL each bring an LLVM. In a process that has drawn, Triton's
    # would be bound to Mesa's and crash.
    _flags = sys.getdlopenflags()
    sys.setdlopenflags(_flags | getattr(os, "RTLD_DEEPBIND", 0))
    import triton
    import triton.language as tl

    sys.setdlopenflags(_flags)

    @triton.jit  # type: ignore[untyped-decorator]
    def _sums(  # type: ignore[no-untyped-def]
        x,
        sums,
        pixels,
        channels,
        chunks,
        WIDTH: tl.constexpr,
        CHUNK: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
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
            v = tl.load(
                x + base + rows[:, None] * channels + across[None, :], mask=inside, other=0.0
            ).to(tl.float32)
            d = tl.where(inside, v - about, 0.0)
            total += d
            squares += d * d
        tl.store(sums + (group * chunks + chunk) * 2, tl.sum(tl.sum(total, 1), 0))
        tl.store(sums + (group * chunks + chunk) * 2 + 1, tl.sum(tl.sum(squares, 1), 0))

    @triton.jit  # type: ignore[untyped-decorator]
    def _apply(  # type: ignore[no-untyped-def]
        x, shortcut, weight, bias, scale, shift, sums, y, moments, pixels, channels, chunks, eps,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, MAX: tl.constexpr,
        SHORTCUT: tl.constexpr, RELU: tl.constexpr, FILM: tl.constexpr,
    ):  # fmt: skip
        """One chunk of one group; the first one also stores mean and inverse deviation."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        every = tl.arange(0, MAX)
        count = pixels * WIDTH
        total = (
            tl.sum(tl.load(sums + (group * chunks + every) * 2, mask=every < chunks, other=0.0), 0)
            / count
        )
        square = (
            tl.sum(
                tl.load(sums + (group * chunks + every) * 2 + 1, mask=every < chunks, other=0.0), 0
            )
            / count
        )
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
            if FILM:
                times = tl.load(scale + group * WIDTH + across).to(tl.float32)
                plus = tl.load(shift + group * WIDTH + across).to(tl.float32)
                out = tl.maximum(out * times[None, :] + plus[None, :], 0.0)
            tl.store(y + place, out.to(y.dtype.element_ty), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _gradient(  # type: ignore[no-untyped-def]
        dy, y, x, shortcut, w, b, s, mean, inverse, place, inside,
        SHORTCUT: tl.constexpr, RELU: tl.constexpr, FILM: tl.constexpr
    ):  # fmt: skip
        """Gradients after and before the modulation, what was modulated, the normalised input."""
        after = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
        if RELU or FILM:
            after = tl.where(
                tl.load(y + place, mask=inside, other=0.0).to(tl.float32) > 0.0, after, 0.0
            )
        normed = (tl.load(x + place, mask=inside, other=0.0).to(tl.float32) - mean) * inverse
        before, held = after, after
        if FILM:
            held = normed * w[None, :] + b[None, :]
            if SHORTCUT:
                held += tl.load(shortcut + place, mask=inside, other=0.0).to(tl.float32)
            before = after * s[None, :]
            if RELU:
                before = tl.where(held > 0.0, before, 0.0)
                held = tl.maximum(held, 0.0)
        return after, before, held, normed

    @triton.jit  # type: ignore[untyped-decorator]
    def _back_sums(  # type: ignore[no-untyped-def]
        dy, y, x, shortcut, weight, bias, scale, moments, sums, pixels, channels, chunks,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
        SHORTCUT: tl.constexpr, RELU: tl.constexpr, FILM: tl.constexpr,
    ):  # fmt: skip
        """Gradient sums of one chunk by channel: bias, weight and, with FILM, scale and shift."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        mean, inverse = tl.load(moments + group * 2), tl.load(moments + group * 2 + 1)
        w = tl.load(weight + (group % groups) * WIDTH + across).to(tl.float32)
        b = tl.load(bias + (group % groups) * WIDTH + across).to(tl.float32)
        s = tl.load(scale + group * WIDTH + across).to(tl.float32) if FILM else w
        plain = tl.zeros((BLOCK, WIDTH), tl.float32)
        times = tl.zeros((BLOCK, WIDTH), tl.float32)
        scales = tl.zeros((BLOCK, WIDTH), tl.float32)
        shifts = tl.zeros((BLOCK, WIDTH), tl.float32)
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            place = base + rows[:, None] * channels + across[None, :]
            after, d, held, normed = _gradient(
                dy, y, x, shortcut, w, b, s, mean, inverse, place, inside, SHORTCUT, RELU, FILM
            )
            plain += d
            times += d * normed
            if FILM:
                scales += after * held
                shifts += after
        rows_of = 4 if FILM else 2
        out = sums + (group * chunks + chunk) * rows_of * WIDTH + across
        tl.store(out, tl.sum(plain, 0))
        tl.store(out + WIDTH, tl.sum(times, 0))
        if FILM:
            tl.store(out + 2 * WIDTH, tl.sum(scales, 0))
            tl.store(out + 3 * WIDTH, tl.sum(shifts, 0))

    @triton.jit  # type: ignore[untyped-decorator]
    def _back_apply(  # type: ignore[no-untyped-def]
        dy, y, x, shortcut, weight, bias, scale, moments, sums, dx, dshortcut, pixels, channels,
        chunks,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, MAX: tl.constexpr,
        SHORTCUT: tl.constexpr, RELU: tl.constexpr, FILM: tl.constexpr,
    ):  # fmt: skip
        """dx = inverse (w d - mean(w d) - xhat mean(w d xhat)) and the shortcut's, one chunk."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        across = tl.arange(0, WIDTH)
        every = tl.arange(0, MAX)
        mean, inverse = tl.load(moments + group * 2), tl.load(moments + group * 2 + 1)
        w = tl.load(weight + (group % groups) * WIDTH + across).to(tl.float32)
        b = tl.load(bias + (group % groups) * WIDTH + across).to(tl.float32)
        s = tl.load(scale + group * WIDTH + across).to(tl.float32) if FILM else w
        rows_of = 4 if FILM else 2
        parts = sums + (group * chunks + every[:, None]) * rows_of * WIDTH + across[None, :]
        there = (every < chunks)[:, None]
        plain = tl.sum(tl.sum(tl.load(parts, mask=there, other=0.0), 0) * w, 0) / (pixels * WIDTH)
        times = tl.sum(tl.sum(tl.load(parts + WIDTH, mask=there, other=0.0), 0) * w, 0) / (
            pixels * WIDTH
        )
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            place = base + rows[:, None] * channels + across[None, :]
            _, d, _, normed = _gradient(
                dy, y, x, shortcut, w, b, s, mean, inverse, place, inside, SHORTCUT, RELU, FILM
            )
            if SHORTCUT:
                tl.store(dshortcut + place, d.to(dshortcut.dtype.element_ty), mask=inside)
            out = inverse * (d * w[None, :] - plain - normed * times)
            tl.store(dx + place, out.to(dx.dtype.element_ty), mask=inside)


class _Fused(torch.autograd.Function):
    """The four kernels as one differentiable function."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None,
        scale: Tensor | None, shift: Tensor | None,
        eps: float, relu: bool,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous(memory_format=torch.channels_last)
        # What is not given is not read: the input stands in its place.
        other = x if shortcut is None else shortcut.contiguous(memory_format=torch.channels_last)
        scale, shift = (x if v is None else v.contiguous() for v in (scale, shift))
        film = scale is not x
        n, channels, height, width = x.shape
        pixels, groups = height * width, n * channels // WIDTH
        chunks = -(-pixels // CHUNK)
        sizes = {
            "WIDTH": WIDTH,
            "CHUNK": min(CHUNK, triton.next_power_of_2(pixels)),
            "BLOCK": min(BLOCK, triton.next_power_of_2(pixels)),
        }
        most = {"MAX": max(2, triton.next_power_of_2(chunks))}
        flags = {"SHORTCUT": shortcut is not None, "RELU": relu, "FILM": film}
        y = torch.empty_like(x)
        sums = x.new_empty((groups, chunks, 2), dtype=torch.float32)
        moments = x.new_empty((groups, 2), dtype=torch.float32)
        _sums[(groups, chunks)](x, sums, pixels, channels, chunks, **sizes)
        given = (x, other, weight, bias, scale, shift, sums, y, moments)
        count = (pixels, channels, chunks)
        _apply[(groups, chunks)](*given, *count, eps, **sizes, **most, **flags)
        ctx.save_for_backward(
            x, other if film else x, y if relu or film else x, weight, bias, scale, moments
        )
        ctx.how = (chunks, sizes, most, flags)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, other, y, weight, bias, scale, moments = ctx.saved_tensors
        chunks, sizes, most, flags = ctx.how
        dy = dy.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = x.shape
        pixels, groups = height * width, n * channels // WIDTH
        rows = 4 if flags["FILM"] else 2
        sums = x.new_empty((groups, chunks, rows, WIDTH), dtype=torch.float32)
        given = (dy, y, x, other, weight, bias, scale, moments, sums)
        _back_sums[(groups, chunks)](*given, pixels, channels, chunks, **sizes, **flags)
        dx = torch.empty_like(x)
        dshortcut = torch.empty_like(x) if flags["SHORTCUT"] else None
        outs, count = (dx, dx if dshortcut is None else dshortcut), (pixels, channels, chunks)
        _back_apply[(groups, chunks)](*given, *outs, *count, **sizes, **most, **flags)
        each = sums.view(n, channels // WIDTH, chunks, rows, WIDTH)
        if not flags["FILM"]:
            dbias, dweight = each.sum(dim=(0, 2)).transpose(0, 1).flatten(1).to(weight.dtype)
            return dx, dweight, dbias, dshortcut, None, None, None, None
        # (n, groups of an image, rows, WIDTH).
        each = each.sum(dim=2) if chunks > 1 else each[:, :, 0]
        dbias, dweight = each[:, :, :2].sum(dim=0).transpose(0, 1).flatten(1).to(weight.dtype)
        dscale, dshift = each[:, :, 2:].permute(2, 0, 1, 3).flatten(2).to(weight.dtype)
        return dx, dweight, dbias, dshortcut, dscale, dshift, None, None
