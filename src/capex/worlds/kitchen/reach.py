"""Reach maps: where the tip can go with the hand pointing down or forward, and how far from its
joint limits the arm then is.

The mounting height and every fixture's approach were chosen inside these maps. `python -m
capex.worlds.kitchen.reach OUT.png` draws them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from capex.pose import DOWN, FORWARD, Array
from capex.worlds.kitchen import robot as panda
from capex.worlds.kitchen.robot import MOUNT_HEIGHT_M

X_M = np.arange(0.10, 0.96, 0.05)
Z_M = np.arange(-0.40, 1.11, 0.05)
SLICES_Y_M = (0.0, 0.2, 0.4)


def reach_map(rotation: Array, y_m: float) -> Array:
    """Distance to the nearest joint limit (rad) on the (z, x) grid, NaN out of reach."""
    x, z = np.meshgrid(X_M, Z_M)
    points = np.stack([x.ravel(), np.full(x.size, y_m), z.ravel()], axis=1)
    solved = panda.solve(points, rotation, seeds=12, iterations=80)
    return np.asarray(np.where(solved.reached, solved.margin_rad, np.nan).reshape(x.shape))


def draw(out: Path) -> Path:
    """Both orientations in three vertical slices, with the counter's height as a line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(SLICES_Y_M), figsize=(12, 9), sharex=True, sharey=True, layout="constrained"
    )
    for row, (name, rotation) in zip(axes, (("down", DOWN), ("forward", FORWARD)), strict=True):
        for axis, y_m in zip(row, SLICES_Y_M, strict=True):
            margin, height = reach_map(rotation, y_m), Z_M + MOUNT_HEIGHT_M
            mesh = axis.pcolormesh(X_M, height, margin, vmin=0, vmax=0.8, shading="nearest")
            axis.axhline(0.90, color="tab:red", linewidth=1)
            axis.set_title(f'hand "{name}", y = {100 * y_m:.0f} cm')
            axis.set_xlabel("x ahead of the mount (m)")
            axis.set_ylabel("height above the floor (m)")
            axis.grid(alpha=0.3)
    label = "distance to the nearest joint limit (rad); white: out of reach; red line: counter"
    figure.colorbar(mesh, ax=axes, label=label)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=80)
    plt.close(figure)
    return out


if __name__ == "__main__":
    print(draw(Path(sys.argv[1] if len(sys.argv) > 1 else "reach.png")))
