"""Rig files for tests of the rig's process, over the lagging arm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from capex.pose import DOWN, Pose
from capex.rigs.rigfile import ArmEntry, Box, GuardPolicy, RigFile, RigTask

WORKSPACE = Box("workspace", (0.1, -0.6, 0.02), (0.8, 0.6, 0.6))
SHELF = Box("shelf", (0.55, -0.6, 0.02), (0.8, 0.6, 0.2))
SIDES = {"left": 0.2, "right": -0.2}


def rig_of(
    folder: Path, *, arms: int = 1, clock: Any = "lock-step", guard: Any = None, **options: Any
) -> RigFile:
    """A rig with one arm or two, logging into `folder` and misbehaving by files in folder/ARM."""
    policy = GuardPolicy(WORKSPACE, (SHELF,), **(guard or {}))
    told = {
        "lower_m": WORKSPACE.lower_m,
        "upper_m": WORKSPACE.upper_m,
        "keep_out": [(SHELF.lower_m, SHELF.upper_m)],
        "step_m": policy.max_step_m,
        "step_rad": policy.max_step_rad,
        "lead_m": policy.lead_m,
        "apart_m": policy.arm_distance_m,
    }
    entries = []
    for name, y in {"arm": 0.0}.items() if arms == 1 else SIDES.items():
        (folder / name).mkdir(exist_ok=True)
        own = {
            "start_m": (0.4, y, 0.3),
            "mount_m": (0.0, y, 0.0),
            "control": str(folder / name),
            "log": str(folder / f"{name}.log"),
            "policy": told,
            "lock_step": clock == "lock-step",
            **options,
        }
        mount = Pose(np.array([0.0, y, 0.0]), np.eye(3))
        home = Pose(np.array([0.4, y, 0.3]), DOWN)
        entries.append(
            ArmEntry(name, "lagging_arm:LaggingArm", own, mount, home, lock=str(folder / name))
        )
    task = RigTask("Touch", "touch it", "it was touched", 400)
    return RigFile(
        folder / "lab.toml", folder.name, tuple(entries), (), policy, {"Touch": task}, clock=clock
    )


def calls(folder: Path, name: str = "arm") -> list[dict[str, Any]]:
    """What the robot was told, in order."""
    return [json.loads(line) for line in (folder / f"{name}.log").read_text().splitlines()]
