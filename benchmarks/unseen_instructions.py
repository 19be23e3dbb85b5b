"""Known words in new combinations: the small encoder of words against the mean of the known
embeddings.

    python benchmarks/unseen_instructions.py [--steps 1500] [--seeds 0 1 2]

Made-up demonstrations: "put the OBJECT on the PLACE", four objects, four places. What is to be done
depends on the instruction alone: the object decides two actions, the place two others; images and
states say nothing. Twelve of the sixteen combinations are trained on, each object and each place
three times; the other four are asked for afterwards. A small Diffusion Policy on a CPU.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import numpy as np
import torch

from capex.students.data import Demonstration, write_pack
from capex.students.policy import load_policy
from capex.students.settings import make_settings
from capex.students.train import TrainingJob, train

OBJECTS, PLACES = ("cup", "bowl", "plate", "can"), ("shelf", "sink", "tray", "stove")
CORNERS = np.array([(-0.6, -0.6), (-0.6, 0.6), (0.6, -0.6), (0.6, 0.6)])
PAIRS = list(itertools.product(range(4), range(4)))
HELD = [(k, k) for k in range(4)]
LENGTH, SIZE, REPEATS = 12, 16, 8
SETTINGS: dict[str, object] = {
    **{"dim": 64, "heads": 4, "layers": 2, "condition_layers": 1, "width": 16, "features": 8},
    **{"keypoints": 4, "language": 32, "diffusion_steps": 10, "dropout": 0.0, "crop": 0},
    **{"batch": 16, "lr": 1e-3, "warmup": 50},
}


def words(pair: tuple[int, int]) -> str:
    """The instruction of an object and a place."""
    return f"put the {OBJECTS[pair[0]]} on the {PLACES[pair[1]]}"


def wanted(pair: tuple[int, int]) -> np.ndarray:
    """The action that an instruction asks for."""
    return np.concatenate([CORNERS[pair[0]], CORNERS[pair[1]]])


def write(folder: Path) -> Path:
    """Demonstrations of the twelve combinations."""
    rng = np.random.default_rng(0)
    pairs = [pair for pair in PAIRS if pair not in HELD]
    rows = [
        Demonstration(k * LENGTH, (k + 1) * LENGTH, words(pair), "toy", "Put", k, certified=True)
        for k, pair in enumerate(pairs)
    ]
    actions = np.concatenate([np.tile(wanted(pair), (LENGTH, 1)) for pair in pairs])
    head = {"cameras": ["eye"], "state_names": ["s"], "action_names": list("abcd"), "fps": 20}
    frames = (rng.integers(0, 256, (1, SIZE, SIZE, 3), dtype=np.uint8) for _ in actions)
    states = rng.normal(size=(len(actions), 1)).astype(np.float32)
    write_pack(folder, head, frames, states, actions.astype(np.float32), rows)
    return folder


def errors(checkpoint: Path, pairs: list[tuple[int, int]]) -> float:
    """Mean |error| of the actions that a policy gives for instructions."""
    policy, rng = load_policy(checkpoint, "cpu"), np.random.default_rng(1)
    missed = []
    for pair, seed in itertools.product(pairs, range(REPEATS)):
        policy.reset(seed)
        image = rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)
        seen = {"images": {"eye": image}, "state": rng.normal(size=1), "instruction": words(pair)}
        missed.append(np.abs(policy.act(seen) - wanted(pair)).mean())
    return float(np.mean(missed))


def main() -> None:
    """Train both ways and print what each misses."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--steps", type=int, default=1500)
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = options.parse_args()
    torch.set_num_threads(1)
    mean = np.mean([wanted(pair) for pair in PAIRS if pair not in HELD], axis=0)
    always = np.mean([np.abs(mean - wanted(pair)).mean() for pair in HELD])
    print(f"{given.steps} steps; mean |error| of an action; the mean action misses {always:.3f}")
    print(f"{'embedding':32s}{'seed':>6s}{'trained on':>12s}{'unseen':>12s}")
    names = {"table": "learned table, mean for others", "words": "encoder of words"}
    with tempfile.TemporaryDirectory() as scratch:
        pack = write(Path(scratch, "pack"))
        for seed, text in itertools.product(given.seeds, names):
            settings = make_settings("diffusion", SETTINGS | {"text": text})
            out = Path(scratch, f"{text}-{seed}")
            train(TrainingJob((pack,), settings, given.steps, out, seed=seed, device="cpu"))
            known = errors(out, [pair for pair in PAIRS if pair not in HELD])
            unseen = errors(out, HELD)
            print(f"{names[text]:32s}{seed:6d}{known:12.3f}{unseen:12.3f}", flush=True)


if __name__ == "__main__":
    main()
