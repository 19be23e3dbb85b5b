"""The students' fused kernels against torch's own functions: largest relative differences of
results and gradients.

    python scripts/check_kernels.py                        on a CUDA device
    TRITON_INTERPRET=1 python scripts/check_kernels.py     on a CPU, in Triton's interpreter
"""

from __future__ import annotations

import itertools
import math
import os
import sys

import torch
from torch import Tensor, nn

from capex.students import decoder, kernels
from capex.students.device import choose_device
from capex.students.diffusion import Denoiser
from capex.students.settings import DiffusionSettings, make_settings

TOLERANCE = {  # the decoder, and what a CUDA device multiplies, have ten bits of mantissa
    "cuda": {"group norm": 5e-3, "decoder": 5e-3},
    "cpu": {"group norm": 1e-4, "decoder": 1e-3},
}
# shortcut, rectifier, modulation
PARTS = (
    (False, False, False),
    (False, True, False),
    (True, True, False),
    (True, True, True),
    (False, True, True),
)
SHAPES = {
    "cuda": ((2, 64, 56, 56), (2, 512, 7, 7), (1, 32, 33, 33), (70, 64, 14, 14)),
    "cpu": ((1, 32, 33, 33), (2, 48, 3, 5), (70, 16, 2, 3)),
}


MANY = 8  # trajectories for which the tiles of many rows are taken


def difference(found: Tensor, wanted: Tensor) -> float:
    """The largest, relative to the largest wanted; infinite if anything found is not finite."""
    found, wanted = found.detach().float(), wanted.detach().float()
    return (
        float((found - wanted).abs().max() / wanted.abs().max())
        if bool(found.isfinite().all())
        else math.inf
    )


def check_norm(
    device: str, shape: tuple[int, ...], shortcut: bool, relu: bool, film: bool
) -> float:
    """Group norm with what follows it, forwards and backwards."""
    norm = nn.GroupNorm(shape[1] // kernels.WIDTH, shape[1], device=device)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, other = (
        torch.randn(shape, device=device).to(memory_format=torch.channels_last).requires_grad_()
        for _ in range(2)
    )
    both = torch.randn(shape[0], 2 * shape[1], device=device, requires_grad=True)
    scale, shift = both.split(shape[1], dim=1)
    inputs = [x, norm.weight, norm.bias, *([other] if shortcut else []), *([both] if film else [])]
    given = (other if shortcut else None, scale if film else None, shift if film else None)
    fused = kernels._Fused.apply(x, norm.weight, norm.bias, *given, norm.eps, relu)
    plain = torch.nn.functional.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps)
    plain = kernels.act(plain, other if shortcut else None, relu, (scale, shift) if film else None)
    gradient = torch.randn_like(plain)
    found, wanted = (torch.autograd.grad(out, inputs, gradient) for out in (fused, plain))
    return max(map(difference, (fused, *found), (plain, *wanted)))


def check_decoder(device: str, batch: int) -> float:
    """The denoiser's decoder; without a GPU one layer, small for one robot and whole for many."""
    few = {"dim": 64, "heads": 4} if batch < MANY else {}
    changes = {} if device == "cuda" else {**few, "layers": 1, "condition_layers": 1}
    settings = make_settings("diffusion", changes)
    assert isinstance(settings, DiffusionSettings)
    model = Denoiser(settings, 12, 100).to(device).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.05)
    with torch.no_grad():
        memory = model.remember(
            torch.full((batch,), 7, device=device), torch.randn(batch, 2, 100, device=device)
        )
        noisy = torch.randn(batch, settings.horizon, 12, device=device)
        found = decoder.Fused(model)(noisy, torch.stack(memory))
        wanted = model.estimate(noisy, memory)
    return difference(found, wanted)


def main() -> int:
    """Print every difference; 1 if one is too large."""
    if not kernels.AVAILABLE:
        print("Triton is not installed: pip install triton", file=sys.stderr)
        return 2
    if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
        print(
            "there is no CUDA device; set TRITON_INTERPRET=1 to run the kernels in Triton's"
            " interpreter",
            file=sys.stderr,
        )
        return 2
    torch.manual_seed(0)
    device = choose_device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda").type
    rows = {}
    for shape, (shortcut, relu, film) in itertools.product(SHAPES[device], PARTS):
        named = (
            ", ".join(
                n
                for n, there in (("shortcut", shortcut), ("relu", relu), ("modulation", film))
                if there
            )
            or "alone"
        )
        rows[f"group norm: {shape}, {named}"] = check_norm(device, shape, shortcut, relu, film)
    rows |= {
        f"decoder: {batch} trajectories": check_decoder(device, batch) for batch in (1, 3, MANY)
    }
    for name, value in rows.items():
        print(f"{name:60s} {value:.1e}")
    most = {name: TOLERANCE[device][name[: name.index(":")]] for name in rows}
    return int(not all(value <= most[name] for name, value in rows.items()))


if __name__ == "__main__":
    sys.exit(main())
