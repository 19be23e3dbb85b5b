"""How fast several students train side by side on one GPU, as branches of one CUDA graph.

    python benchmarks/student_width.py [--policies act diffusion] [--sizes 128 256]
        [--widths 1 4 8] [--steps 100] [--device auto]

Batch 16, three cameras with random pictures of each size, cropped by an eighth.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from student_speed import random_pack, rate, spec_of

from capex.students import data
from capex.students.batches import Batches
from capex.students.data import Demonstrations
from capex.students.device import choose_device, prepare
from capex.students.graph import Stepper
from capex.students.trainer import Trainer


def trainer(
    policy: str, demonstrations: Demonstrations, seed: int, device: torch.device
) -> Trainer:
    """A training with the paper's network."""
    torch.manual_seed(seed)
    spec = spec_of(policy, demonstrations, crop=demonstrations.size[0] * 7 // 8)
    net = spec.network().to(device)
    if device.type == "cuda":
        net.to(memory_format=torch.channels_last)
    batches = Batches(demonstrations, spec, device, seed, on_device=device.type == "cuda")
    return Trainer(net, spec.settings, batches, 10**5, device)


def measured(
    policy: str, demonstrations: Demonstrations, width: int, steps: int, device: torch.device
) -> float:
    """Steps per second of each of `width` trainings."""
    trainings = [trainer(policy, demonstrations, k, device) for k in range(width)]
    stepper = Stepper(trainings, device)
    try:
        return rate(stepper.advance, steps, device)
    finally:
        for training in trainings:
            training.batches.close()


def main() -> None:
    """Print a line per policy, size and width."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--policies", nargs="+", default=["act", "diffusion"])
    options.add_argument("--sizes", nargs="+", type=int, default=[128, 256])
    options.add_argument("--widths", nargs="+", type=int, default=[1, 4, 8])
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--device", default="auto")
    given = options.parse_args()
    device = choose_device(given.device)
    prepare(device)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, True
    print(f"torch {torch.__version__} on {device}, {given.steps} steps")
    print(f"{'policy':>10s}{'pixels':>8s}{'trainings':>11s}{'steps/s each':>14s}{'together':>10s}")
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            random_pack(Path(folder, "pack"), episodes=4, size=size)
            demonstrations = data.load([Path(folder, "pack")], window=20)
            for policy, width in ((p, w) for p in given.policies for w in given.widths):
                each = measured(policy, demonstrations, width, given.steps, device)
                row = f"{policy:>10s}{size:8d}{width:11d}{each:14.1f}{each * width:10.1f}"
                print(row, flush=True)


if __name__ == "__main__":
    main()
