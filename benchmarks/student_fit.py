"""Does a student fit its demonstrations? What its actions miss, in standard deviations, on the
frames it was trained on and on others.

    python benchmarks/student_fit.py runs/act DATASET [--held DATASET] [--frames 2000] [--json FILE]

For every action: the error that training sees (dropout on, crops at random; ACT's latent from the
actions themselves), the error of the policy as it acts (dropout off, centre crop, latent 0), the
same on held-out demonstrations, and what always giving the mean action misses. If the second
equals the first and both are large, the network underfits; if only the first is large, dropout and
crops make it so; if only the third is, it overfits.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from capex.students import checkpoint, data
from capex.students.act import ACT, ActBatch
from capex.students.batches import Batches
from capex.students.device import choose_device, prepare
from capex.students.runner import Runner
from capex.students.spec import PolicySpec

SEED = 1  # of which frames are looked at


def chunks(
    spec: PolicySpec, demonstrations: data.Demonstrations, device: torch.device, frames: int
) -> tuple[Batches, int]:
    """Batches of the demonstrations in an order of their own, and how many of them to take."""
    batches = Batches(demonstrations, spec, device, SEED, on_device=False)
    batch = spec.settings.batch
    return batches, max(1, min(frames, len(batches.order)) // batch)


@torch.no_grad()
def as_trained(spec: PolicySpec, net: ACT, batches: Batches, steps: int) -> np.ndarray:
    """Mean |error| by step of the chunk and action, (chunk, A), as the training loss has it."""
    net.train()
    errors = []
    for step in range(steps):
        batches.prepare(step)
        batch = batches.load(torch.tensor(step, device=batches._device))
        assert isinstance(batch, ActBatch)
        mean, log_variance = net.infer(batch.state, batch.actions, batch.padding)
        latent = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        predicted = net.valued(net.decode(batch.images, batch.state, latent))
        errors.append(missed(predicted, batch.actions, batch.padding))
    net.eval()
    return np.mean(errors, axis=0)


@torch.no_grad()
def as_it_acts(
    spec: PolicySpec, runner: Runner, pack: data.Demonstrations, batches: Batches, steps: int
) -> np.ndarray:
    """The same of the policy as it acts, from the stored frames."""
    errors, begins = [], {}
    for e in pack.episodes:
        begins |= dict.fromkeys(range(e.begin, e.end), e.begin)
    for step in range(steps):
        batches.prepare(step)
        batch = batches.load(torch.tensor(step, device=batches._device))
        rows = batches.order.rows(step, 1)[0]
        looks = [[max(r + k, begins[r]) for k in spec.settings.observation_steps] for r in rows]
        images = torch.from_numpy(np.stack([[frame(pack, t) for t in row] for row in looks]))
        states = torch.from_numpy(spec.normalizer.state_in(pack.states[np.array(looks)]))
        assert isinstance(batch, ActBatch)
        parts = zip(images.split(runner.most), states.split(runner.most), strict=True)
        predicted = torch.cat([asked(runner, *part) for part in parts])
        errors.append(missed(predicted, batch.actions.cpu(), batch.padding.cpu()))
    return np.mean(errors, axis=0)


def asked(runner: Runner, images: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """What a network answers."""
    count = len(images)
    slate = runner.slate(count)
    slate.images[:count], slate.states[:count] = images, states
    return runner.ask(slate, count).take()


def frame(pack: data.Demonstrations, row: int) -> np.ndarray:
    """Images of a frame, wherever its dataset is."""
    at = int(pack.rows[row])
    for images in pack.images:
        if at < len(images):
            return np.asarray(images[at])
        at -= len(images)
    raise IndexError(row)


def missed(predicted: torch.Tensor, wanted: torch.Tensor, padding: torch.Tensor) -> np.ndarray:
    """Mean |error| over a batch, (steps, A)."""
    apart = (predicted.float() - wanted).abs()
    inside = (~padding)[..., None].float()
    return ((apart * inside).sum(dim=0) / inside.sum(dim=0).clamp(min=1)).cpu().numpy()


def main() -> None:
    """Print a line per action."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("checkpoint", type=Path)
    options.add_argument("dataset", type=Path)
    options.add_argument("--held", type=Path, default=None)
    options.add_argument("--frames", type=int, default=2000)
    options.add_argument("--device", default="auto")
    options.add_argument("--json", type=Path, default=None)
    given = options.parse_args()
    device = choose_device(given.device)
    prepare(device)
    spec, net = checkpoint.load_network(given.checkpoint)
    if not isinstance(net, ACT):
        raise SystemExit("only ACT's error can be told by action; Diffusion Policy samples")
    net.to(device).eval()
    runner = Runner(spec, net, device, graphed=False)
    columns: dict[str, np.ndarray] = {}
    for name, path in (("", given.dataset), ("held out", given.held)):
        if path is None:
            continue
        pack = data.load([path], window=len(spec.settings.action_steps), uncertified=True)
        batches, steps = chunks(spec, pack, device, given.frames)
        if not name:
            columns["as trained"] = as_trained(spec, net, batches, steps)
            wanted = spec.normalizer.action.apply(pack.actions)
            mean = np.abs(wanted - wanted.mean(axis=0)).mean(axis=0)
            columns["mean action"] = np.broadcast_to(mean, columns["as trained"].shape)
        columns[name or "as it acts"] = as_it_acts(spec, runner, pack, batches, steps)
        batches.close()
    steps = spec.training.get("steps")
    print(f"{given.checkpoint}: {steps} steps; mean |error| in standard deviations of each action")
    print(f"{'action':14s}" + "".join(f"{name:>14s}" for name in columns))
    for k, action in enumerate(spec.action_names):
        print(f"{action:14s}" + "".join(f"{v[:, k].mean():14.4f}" for v in columns.values()))
    print(f"{'all':14s}" + "".join(f"{v.mean():14.4f}" for v in columns.values()))
    ends = [f"{v[0].mean():.4f} .. {v[-1].mean():.4f}" for v in columns.values()]
    print(
        "first to last step of a chunk: "
        + ", ".join(map(" ".join, zip(columns, ends, strict=True)))
    )
    if given.json is not None:
        told = {name: v.tolist() for name, v in columns.items()}
        given.json.write_text(json.dumps({"steps": steps, "actions": spec.action_names, **told}))


if __name__ == "__main__":
    main()
