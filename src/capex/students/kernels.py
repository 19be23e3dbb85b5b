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
IMAGES = 64  # of which one program collects gradients at a time
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
    def _moments(  # type: ignore[no-untyped-def]
        x, base, about, chunk, pixels, channels,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """Sum and sum of squares of one chunk of one group, about a value."""
        across = tl.arange(0, WIDTH)
        total = tl.zeros((BLOCK, WIDTH), tl.float32)
        squares = tl.zeros((BLOCK, WIDTH), tl.float32)
        for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            inside = (rows < pixels)[:, None]
            place = base + rows[:, None] * channels + across[None, :]
            v = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
            d = tl.where(inside, v - about, 0.0)
            total += d
            squares += d * d
        return tl.sum(tl.sum(total, 1), 0), tl.sum(tl.sum(squares, 1), 0)

    @triton.jit  # type: ignore[untyped-decorator]
    def _sums(  # type: ignore[no-untyped-def]
        x, sums, pixels, channels, chunks,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """Moments of one chunk of one group, about the group's first value."""
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        base = (group // groups).to(tl.int64) * pixels * channels + (group % groups) * WIDTH
        about = tl.load(x + base).to(tl.float32)
        total, squares = _moments(x, base, about, chunk, pixels, channels, WIDTH, CHUNK, BLOCK)
        tl.store(sums + (group * chunks + chunk) * 2, total)
        tl.store(sums + (group * chunks + chunk) * 2 + 1, squares)

    @triton.jit  # type: ignore[untyped-decorator]
    def _apply(  # type: ignore[no-untyped-def]
        x, shortcut, weight, bias, scale, shift, sums, y, moments, pixels, channels, chunks, row,
        eps,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, MAX: tl.constexpr,
        SHORTCUT: tl.constexpr, RELU: tl.constexpr, FILM: tl.constexpr,
    ):  # fmt: skip
        """One chunk of one group; the first one also stores mean and inverse deviation. A group of
        one chunk needs no sums before it. Scale and shift have `row` numbers between two images.
        """
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        image = (group // groups).to(tl.int64)
        across = (group % groups) * WIDTH + tl.arange(0, WIDTH)
        base = image * pixels * channels
        first = base + (group % groups) * WIDTH
        about = tl.load(x + first).to(tl.float32)
        if MAX == 1:
            total, square = _moments(x, first, about, 0, pixels, channels, WIDTH, CHUNK, BLOCK)
        else:
            every = tl.arange(0, MAX)
            parts, there = sums + (group * chunks + every) * 2, every < chunks
            total = tl.sum(tl.load(parts, mask=there, other=0.0), 0)
            square = tl.sum(tl.load(parts + 1, mask=there, other=0.0), 0)
        total, square = total / (pixels * WIDTH), square / (pixels * WIDTH)
        mean = total + about
        inverse = 1.0 / tl.sqrt(tl.maximum(square - total * total, 0.0) + eps)
        if chunk == 0:
            tl.store(moments + group * 2, mean)
            tl.store(moments + group * 2 + 1, inverse)
        w = tl.load(weight + across).to(tl.float32)
        b = tl.load(bias + across).to(tl.float32)
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
                times = tl.load(scale + image * row + across).to(tl.float32)
                plus = tl.load(shift + image * row + across).to(tl.float32)
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
    def _back(  # type: ignore[no-untyped-def]
        dy, y, x, shortcut, weight, bias, scale, moments, sums, dx, dshortcut, pixels, channels,
        chunks, row,
        WIDTH: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, MAX: tl.constexpr,
        SHORTCUT: tl.constexpr, RELU: tl.constexpr, FILM: tl.constexpr,
        SUM: tl.constexpr, APPLY: tl.constexpr,
    ):  # fmt: skip
        """SUM: gradient sums of one chunk by channel: bias, weight and, with FILM, scale and shift.
        APPLY: dx = inverse (w d - mean(w d) - xhat mean(w d xhat)) and the shortcut's. A group of
        one chunk takes both at once.
        """
        group, chunk = tl.program_id(0), tl.program_id(1)
        groups = channels // WIDTH
        image = (group // groups).to(tl.int64)
        across = (group % groups) * WIDTH + tl.arange(0, WIDTH)
        base = image * pixels * channels
        mean, inverse = tl.load(moments + group * 2), tl.load(moments + group * 2 + 1)
        w = tl.load(weight + across).to(tl.float32)
        b = tl.load(bias + across).to(tl.float32)
        s = tl.load(scale + image * row + across).to(tl.float32) if FILM else w
        rows_of = 4 if FILM else 2
        part = sums + group * chunks * rows_of * WIDTH + tl.arange(0, WIDTH)
        if SUM:
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
            of_bias, of_weight = tl.sum(plain, 0), tl.sum(times, 0)
            own = part + chunk * rows_of * WIDTH
            tl.store(own, of_bias)
            tl.store(own + WIDTH, of_weight)
            if FILM:
                tl.store(own + 2 * WIDTH, tl.sum(scales, 0))
                tl.store(own + 3 * WIDTH, tl.sum(shifts, 0))
        else:
            every = tl.arange(0, MAX)
            parts = part[None, :] + every[:, None] * rows_of * WIDTH
            there = (every < chunks)[:, None]
            of_bias = tl.sum(tl.load(parts, mask=there, other=0.0), 0)
            of_weight = tl.sum(tl.load(parts + WIDTH, mask=there, other=0.0), 0)
        if APPLY:
            of_bias = tl.sum(of_bias * w, 0) / (pixels * WIDTH)
            of_weight = tl.sum(of_weight * w, 0) / (pixels * WIDTH)
            for start in range(chunk * CHUNK, chunk * CHUNK + CHUNK, BLOCK):
                rows = start + tl.arange(0, BLOCK)
                inside = (rows < pixels)[:, None]
                place = base + rows[:, None] * channels + across[None, :]
                _, d, _, normed = _gradient(
                    dy, y, x, shortcut, w, b, s, mean, inverse, place, inside, SHORTCUT, RELU, FILM
                )
                if SHORTCUT:
                    tl.store(dshortcut + place, d.to(dshortcut.dtype.element_ty), mask=inside)
                out = inverse * (d * w[None, :] - of_bias - normed * of_weight)
                tl.store(dx + place, out.to(dx.dtype.element_ty), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _collect(  # type: ignore[no-untyped-def]
        sums, dweight, dbias, dscale, dshift, images, chunks,
        WIDTH: tl.constexpr, IMAGES: tl.constexpr, FILM: tl.constexpr,
    ):  # fmt: skip
        """One group's gradient sums, of all images, as the gradients of its channels."""
        group, groups = tl.program_id(0), tl.num_programs(0)
        across = tl.arange(0, WIDTH)
        column, rows_of = group * WIDTH + across, 4 if FILM else 2
        of_bias = tl.zeros((IMAGES, WIDTH), tl.float32)
        of_weight = tl.zeros((IMAGES, WIDTH), tl.float32)
        for start in range(0, images, IMAGES):
            image = start + tl.arange(0, IMAGES)
            inside = (image < images)[:, None]
            scales = tl.zeros((IMAGES, WIDTH), tl.float32)
            shifts = tl.zeros((IMAGES, WIDTH), tl.float32)
            for chunk in range(chunks):
                part = ((image * groups + group) * chunks + chunk) * rows_of * WIDTH
                parts = sums + part[:, None] + across[None, :]
                of_bias += tl.load(parts, mask=inside, other=0.0)
                of_weight += tl.load(parts + WIDTH, mask=inside, other=0.0)
                if FILM:
                    scales += tl.load(parts + 2 * WIDTH, mask=inside, other=0.0)
                    shifts += tl.load(parts + 3 * WIDTH, mask=inside, other=0.0)
            if FILM:
                place = image[:, None] * groups * WIDTH + column[None, :]
                tl.store(dscale + place, scales.to(dscale.dtype.element_ty), mask=inside)
                tl.store(dshift + place, shifts.to(dshift.dtype.element_ty), mask=inside)
        tl.store(dweight + column, tl.sum(of_weight, 0).to(dweight.dtype.element_ty))
        tl.store(dbias + column, tl.sum(of_bias, 0).to(dbias.dtype.element_ty))


class _Fused(torch.autograd.Function):
    """The kernels as one differentiable function."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, shortcut: Tensor | None,
        scale: Tensor | None, shift: Tensor | None,
        eps: float, relu: bool,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous(memory_format=torch.channels_last)
        # What is not given is not read: the input stands in its place.
        other = x if shortcut is None else shortcut.contiguous(memory_format=torch.channels_last)
        film = scale is not None and shift is not None
        if scale is None or shift is None:
            scale = shift = x
        elif scale.stride() != shift.stride() or scale.stride(1) != 1:
            scale, shift = scale.contiguous(), shift.contiguous()
        n, channels, height, width = x.shape
        pixels, groups = height * width, n * channels // WIDTH
        chunks = -(-pixels // CHUNK)
        sizes = {
            "WIDTH": WIDTH,
            "CHUNK": min(CHUNK, triton.next_power_of_2(pixels)),
            "BLOCK": min(BLOCK, triton.next_power_of_2(pixels)),
        }
        flags = {"SHORTCUT": shortcut is not None, "RELU": relu, "FILM": film}
        flags["MAX"] = triton.next_power_of_2(chunks)
        y = torch.empty_like(x)
        moments = x.new_empty((groups, 2), dtype=torch.float32)
        sums = moments
        if chunks > 1:
            sums = x.new_empty((groups, chunks, 2), dtype=torch.float32)
            _sums[(groups, chunks)](x, sums, pixels, channels, chunks, **sizes)
        given = (x, other, weight, bias, scale, shift, sums, y, moments)
        count = (pixels, channels, chunks, scale.stride(0))
        _apply[(groups, chunks)](*given, *count, eps, **sizes, **flags)
        ctx.save_for_backward(
            x, other if film else x, y if relu or film else x, weight, bias, scale, moments
        )
        ctx.how = (chunks, sizes, flags)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, other, y, weight, bias, scale, moments = ctx.saved_tensors
        chunks, sizes, flags = ctx.how
        dy = dy.contiguous(memory_format=torch.channels_last)
        n, channels, height, width = x.shape
        grid = (n * channels // WIDTH, chunks)
        rows = 4 if flags["FILM"] else 2
        sums = x.new_empty((*grid, rows, WIDTH), dtype=torch.float32)
        dx = torch.empty_like(x)
        dshortcut = torch.empty_like(x) if flags["SHORTCUT"] else None
        given = (dy, y, x, other, weight, bias, scale, moments, sums, dx)
        count = (height * width, channels, chunks, scale.stride(0))
        for work in ({"SUM", "APPLY"},) if chunks == 1 else ({"SUM"}, {"APPLY"}):
            what = {name: name in work for name in ("SUM", "APPLY")}
            _back[grid](
                *given, dx if dshortcut is None else dshortcut, *count, **sizes, **flags, **what
            )
        dweight, dbias = torch.empty_like(weight), torch.empty_like(bias)
        dscale, dshift = scale.new_empty((2, n, channels)) if flags["FILM"] else (dweight, dbias)
        outs, most = (dweight, dbias, dscale, dshift), min(IMAGES, triton.next_power_of_2(n))
        _collect[(channels // WIDTH,)](
            sums, *outs, n, chunks, WIDTH=WIDTH, IMAGES=most, FILM=flags["FILM"]
        )
        of_film = (dscale, dshift) if flags["FILM"] else (None, None)
        return dx, dweight, dbias, dshortcut, *of_film, None, None
