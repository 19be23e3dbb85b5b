"""LeRobot and robomimic as judges of our datasets, in a process of their own: `python judge.py FOLDER` prints what they found as one JSON line.

torch and torchvision are a pair that LeRobot 0.4.4 allows (constraints.txt): it reads video with torchvision's PyAV reader, which later ones lack.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ACT = "act --policy.pretrained_backbone_weights=null --policy.chunk_size=8 --policy.n_action_steps=8 --policy.dim_model=32 --policy.n_heads=2"
DIFFUSION = "diffusion --policy.horizon=8 --policy.n_action_steps=4 --policy.drop_n_last_frames=3 --policy.down_dims=[16,32] --policy.num_inference_steps=3"
COMMON = "--policy.device=cpu --policy.push_to_hub=false --batch_size=2 --num_workers=0 --log_freq=1 --eval_freq=0 --dataset.video_backend=pyav"
LAST = "checkpoints/last/pretrained_model"
CAMERA = "observation.images.left"
WINDOW = {CAMERA: [-0.05, 0.0], "observation.state": [-0.05, 0.0], "action": [0.0, 0.05, 0.1]}


def load(root: Path) -> dict[str, Any]:
    """LeRobot's reader with windows: every frame is read, the first and last ones of each episode are told."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset(
        "capex/judged", root=root, delta_timestamps=WINDOW, video_backend="pyav"
    )
    items = [dataset[k] for k in range(len(dataset))]
    ends = [
        (row["dataset_from_index"], row["dataset_to_index"] - 1) for row in dataset.meta.episodes
    ]
    return {
        "episodes": dataset.num_episodes,
        "frames": len(dataset),
        "actions": torch.stack([i["action"][0] for i in items]).tolist(),
        "states": torch.stack([i["observation.state"][1] for i in items]).tolist(),
        "means": [float(i[CAMERA][1].mean()) for i in items],  # of the present picture
        "shapes": {
            name: list(v.shape) for name, v in items[0].items() if isinstance(v, torch.Tensor)
        },
        "pads": [
            [items[k]["action_is_pad"].tolist(), items[k]["observation.state_is_pad"].tolist()]
            for pair in ends
            for k in pair
        ],
        "next_actions": torch.stack([i["action"][1] for i in items]).tolist(),
        "tasks": sorted({i["task"] for i in items}),
        "second_alone": len(
            LeRobotDataset("capex/judged", root=root, episodes=[1], video_backend="pyav")
        ),
        "certified": [row.get("capex/certified") for row in dataset.meta.episodes],
        "subtasks": [i.get("subtask", "") for i in items],
    }


def convert(root: Path) -> dict[str, Any]:
    """LeRobot's own converter takes a v2.1 dataset to v3.0, and its reader loads that."""
    from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset

    convert_dataset(root.name, root=root.parent, push_to_hub=False)
    return load(root)


def write_with_lerobot(source: Path, out: Path) -> dict[str, Any]:
    """The same frames through LeRobot's own writer; returns the statistics that it stored."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("capex/judged", root=source)
    kept = {
        n: dict(f) for n, f in dataset.features.items() if n.startswith(("observation.", "action"))
    }
    kept["action"]["dtype"] = "float32"
    again = LeRobotDataset.create("capex/again", dataset.fps, kept, root=out, use_videos=False)
    for episode in dataset.meta.episodes:
        for k in range(episode["dataset_from_index"], episode["dataset_to_index"]):
            item = dataset[k]
            frame = {n: item[n].numpy() for n in ("observation.state", "action")}
            pictures = {
                n: (255 * item[n].permute(1, 2, 0)).round().to(torch.uint8).numpy()
                for n in dataset.meta.image_keys
            }
            again.add_frame(frame | pictures | {"task": item["task"]})
        again.save_episode()
    again.finalize()
    return {
        n: {k: np.asarray(v).ravel().tolist() for k, v in stats.items()}
        for n, stats in again.meta.stats.items()
        if n in kept
    }


def film_with_lerobot(out: Path) -> None:
    """Two short episodes of noise as video, by LeRobot's own writer and its default codec."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    shapes = {"observation.state": (3,), "action": (2,), CAMERA: (64, 64, 3)}
    features = {
        n: {"dtype": "float32", "shape": shape, "names": None} for n, shape in shapes.items()
    }
    features[CAMERA] |= {"dtype": "video", "names": ["height", "width", "channels"]}
    dataset, rng = (
        LeRobotDataset.create("capex/filmed", 10, features, root=out),
        np.random.default_rng(0),
    )
    for episode in range(2):
        for _ in range(6 + episode):
            frame = {
                n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items() if n != CAMERA
            }
            picture = np.full(shapes[CAMERA], rng.integers(0, 256), dtype=np.uint8)
            dataset.add_frame(frame | {CAMERA: picture, "task": f"task {episode}"})
        dataset.save_episode()
    dataset.finalize()


def train(root: Path, policy: str, steps: int, out: Path) -> list[str]:
    """`lerobot-train` for a few steps; returns the files of the checkpoint."""
    from lerobot.scripts import lerobot_train

    words = [
        "lerobot-train",
        "--dataset.repo_id=capex/judged",
        f"--dataset.root={root}",
        f"--policy.type={policy}",
    ]
    sys.argv = [
        *" ".join(words).split(),
        *COMMON.split(),
        f"--steps={steps}",
        f"--save_freq={steps}",
        f"--output_dir={out}",
    ]
    lerobot_train.main()
    return sorted(
        p.name for p in (out / "checkpoints" / f"{steps:06d}" / "pretrained_model").iterdir()
    )


def pretend(seed: int, steps: int) -> list[dict[str, Any]]:
    """Observations of an episode that nobody ran: noise."""
    rng = np.random.default_rng(seed)
    return [
        {
            "images": {c: rng.integers(0, 256, (64, 64, 3), np.uint8) for c in ("left", "wrist")},
            "state": rng.normal(size=12),
            "instruction": "press",
        }
        for _ in range(steps)
    ]


def act_alone(folder: Path, seed: int, steps: int) -> list[list[float]]:
    """One pretended episode of a checkpoint, every picture shown, as LeRobot's documents have it."""
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
    from lerobot.policies.factory import make_pre_post_processors

    policy = DiffusionPolicy.from_pretrained(folder)
    before, after = make_pre_post_processors(policy.config, str(folder))
    policy.reset()
    torch.manual_seed(seed)
    actions = []
    for seen in pretend(seed, steps):
        images = {
            f"observation.images.{c}": torch.from_numpy(i).permute(2, 0, 1) / 255
            for c, i in seen["images"].items()
        }
        state = torch.from_numpy(seen["state"]).float()
        batch = before(images | {"observation.state": state, "task": seen["instruction"]})
        actions.append(after(policy.select_action(batch))[0].tolist())
    return actions


def robomimic(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """robomimic's reader with its masks, frames stacked in pairs, sequences of ten."""
    from robomimic.utils import obs_utils
    from robomimic.utils.dataset import SequenceDataset

    pictures = [k for k in keys if k.endswith("image")]
    obs_utils.initialize_obs_utils_with_obs_specs(
        {"obs": {"low_dim": [k for k in keys if k not in pictures], "rgb": pictures}}
    )
    found: dict[str, Any] = {}
    for mask in ("train", "valid"):
        dataset = SequenceDataset(
            hdf5_path=str(path),
            obs_keys=tuple(keys),
            dataset_keys=("actions", "rewards", "dones"),
            load_next_obs=False,
            frame_stack=2,
            seq_length=10,
            hdf5_cache_mode=None,
            filter_by_attribute=mask,
        )
        item = dataset[3]
        shapes = {k: list(v.shape) for k, v in item["obs"].items()}
        found[mask] = {
            "samples": len(dataset),
            "demos": list(dataset.demos),
            "actions": np.asarray(item["actions"]).tolist(),
            "obs": shapes,
        }
        dataset.close_and_delete_hdf5_handle()
    return found


def main() -> None:
    """Judge FOLDER/images, FOLDER/video, FOLDER/v2.1, FOLDER/recorded and FOLDER/hdf5."""
    folder = Path(sys.argv[1])
    found = {
        "images": load(folder / "images"),
        "video": load(folder / "video"),
        "v2.1": convert(folder / "v2.1"),
        "recorded": load(folder / "recorded"),
        "stats": write_with_lerobot(folder / "images", folder / "again"),
        "filmed": film_with_lerobot(folder / "filmed"),
        "act": train(folder / "images", ACT, 2, folder / "act"),
        "diffusion": train(folder / "video", DIFFUSION, 2, folder / "diffusion"),
        "alone": [act_alone(folder / "diffusion" / LAST, seed, 7) for seed in (5, 6)],
        "robomimic": robomimic(
            folder / "hdf5" / "demo.hdf5", ("robot0_base_to_eef_pos", "robot0_agentview_left_image")
        ),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
