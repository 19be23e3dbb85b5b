"""Where demonstrations stop driving: how far apart the base's places are when the arm first takes
over.

    python benchmarks/driving_ends.py runs/pilot runs/expert

A student must learn when to change from base to arm. Where demonstrations disagree about it, a
policy that gives one answer hesitates.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from capex.run.steps import read_steps
from capex.run.store import find_run


def main() -> None:
    """Print a line per chain."""
    if len(sys.argv) < 2:
        sys.exit("usage: python benchmarks/driving_ends.py RUN [RUN..]")
    print(f"{'chain':44s} {'episodes':>8s}   deviation of x, y and heading")
    for run in sys.argv[1:]:
        for chain in find_run(Path(run)).chains():
            places = []
            for index in chain.finished():
                steps = read_steps(chain.episode(index))
                names = list(steps["state_names"])
                driving = steps["actions"][:, list(steps["action_names"]).index("mode")] > 0
                ends = np.flatnonzero(driving[:-1] & ~driving[1:])
                if len(ends):
                    places.append(
                        steps["proprio"][ends[0] + 1][
                            [names.index(n) for n in ("base_x", "base_y", "base_yaw")]
                        ]
                    )
            if places:
                x, y, heading = np.std(places, axis=0)
                print(
                    f"{chain.path.name:44s} {len(places):8d}   {x:.3f} m, {y:.3f} m,"
                    f" {heading:.3f} rad"
                )


if __name__ == "__main__":
    main()
