"""How far a student's actions are from a dataset's own, on the frames it was trained on, beside
always giving the mean action: what it knows by heart, by action.

    python benchmarks/open_loop.py DATASET CHECKPOINT

DATASET has been trained on here, so that its frames are unpacked; one CPU thread.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from capex.students.data import open_pack
from capex.students.policy import load_policy


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("checkpoint", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shown, policy = open_pack(options.dataset), load_policy(options.checkpoint, "cpu")
    errors = []
    for episode in shown.episodes:
        policy.reset()
        for t in range(episode.begin, episode.end):
            images = dict(zip(shown.cameras, shown.images[0][t], strict=True))
            seen = {"images": images, "state": shown.states[t], "instruction": episode.instruction}
            errors.append(np.abs(policy.act(seen) - shown.actions[t]))
    spread = np.abs(shown.actions - shown.actions.mean(axis=0)).mean(axis=0)
    for name, error, mean in zip(shown.action_names, np.mean(errors, axis=0), spread, strict=True):
        print(f"{name:16} {error:.5f}, of the mean action's {mean:.5f}: {100 * error / mean:.0f} %")


if __name__ == "__main__":
    main()
