"""Small demonstrations with something to learn: a bright square in the images tells where the arm goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from capex.students.data import Demonstration, write_pack

torch.set_num_threads(1)  # the networks of these tests are too small for more

CAMERAS = ("left", "right", "wrist")
STATE = (
    "eef_x",
    "eef_y",
    "eef_z",
    "eef_qx",
    "eef_qy",
    "eef_qz",
    "eef_qw",
    "finger_left",
    "finger_right",
    "base_x",
    "base_y",
    "base_yaw",
)
ACTION = (
    "eef_dx",
    "eef_dy",
    "eef_dz",
    "eef_rx",
    "eef_ry",
    "eef_rz",
    "gripper",
    "base_vx",
    "base_vy",
    "base_wz",
    "torso",
    "mode",
)
SMALL = {
    "act": {"dim": 32, "heads": 2, "feedforward": 64, "encoder_layers": 1, "vae_layers": 1, "width": 16, "batch": 8, "lr": 2e-3, "chunk": 8, "dropout": 0.0},
    "diffusion": {
        "dim": 32, "heads": 2, "layers": 2, "condition_layers": 1, "width": 16, "batch": 4, "crop": 24, "language": 8, "features": 8, "keypoints": 8,
        "lr": 1e-3, "warmup": 2, "diffusion_steps": 4, "dropout": 0.0,
    },
}  # fmt: skip


def write(
    folder: Path, episodes: int = 5, length: int = 24, size: int = 32, **changes: object
) -> Path:
    """A pack of demonstrations. `changes` replace entries of its head, or give `certified`, `height`, `nan`, `task` (WORLD:TASK), `source`."""
    rng = np.random.default_rng(0)
    cameras = changes.get("cameras", CAMERAS)
    assert isinstance(cameras, tuple)
    height = int(str(changes.get("height", size)))
    states, actions, images, rows = [], [], [], []
    for k in range(episodes):
        goal, at = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 2)
        begin = k * length
        world, _, task = str(changes.get("task", "toy:Go")).partition(":")
        certified, source = bool(changes.get("certified", True)), str(changes.get("source", "test"))
        rows.append(
            Demonstration(
                begin,
                begin + length,
                "go to the square",
                world,
                task,
                k,
                0,
                source,
                True,
                certified,
            )
        )
        for t in range(length):
            action, state = np.zeros(12), np.zeros(12)
            action[:2], action[6], action[11] = (
                np.clip((goal - at) * 2, -1, 1),
                1 if t > length // 2 else -1,
                -1,
            )
            action[2], state[2] = -0.5, 1 - t / length  # coming down; the gripper closes half way
            state[:2], state[3:7] = (
                at,
                np.array([0.7, 0.0, 0.7, 0.1]) * rng.choice([-1, 1]),
            )  # a quaternion and its negative are the same
            image = np.full((len(cameras), height, size, 3), 40, dtype=np.uint8)
            x, y = ((goal + 1) / 2 * (np.array([size, height]) - 8)).astype(int)
            image[:, y : y + 8, x : x + 8] = (250, 200, 30)
            states.append(state)
            actions.append(action)
            images.append(image)
            at = at + action[:2] * 0.1
    if changes.get("nan"):
        actions[3][1] = np.nan
    head = {
        "cameras": list(cameras),
        "state_names": list(STATE),
        "action_names": list(ACTION),
        "fps": 20,
    }
    head |= {k: v for k, v in changes.items() if k in ("state_names", "action_names", "fps")}
    write_pack(
        folder,
        head,
        iter(images),
        np.array(states, dtype=np.float32),
        np.array(actions, dtype=np.float32),
        rows,
    )
    return folder
