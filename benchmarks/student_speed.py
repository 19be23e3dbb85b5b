"""How fast students train and act, beside LeRobot's own classes, in one run on one machine.

    python benchmarks/student_speed.py [--device cuda] [--steps 300] [--lerobot FOLDER]
        [--only WORDS] [--size 256]

Batch 16, three cameras of 256x256 or another size, random data. Ours includes everything: indices,
gathering, cropping, normalising, optimiser, moving average. LeRobot's networks get a batch that is
already on the device and normalised, their optimiser and their clipping. FOLDER is an unpacked
lerobot wheel for machines where the package itself cannot be installed; its network files are read
on their own there. WORDS: only rows whose names hold them. Without own kernels: torch's functions
in their place, and nothing compiled.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import platform
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from capex.students import data, kernels, normalizer, trainer
from capex.students.batches import Batches
from capex.students.data import Demonstration, write_pack
from capex.students.device import choose_device, prepare
from capex.students.graph import Stepper
from capex.students.policy import Policy
from capex.students.settings import make_settings
from capex.students.spec import PolicySpec
from capex.students.trainer import Trainer

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
)
ACTION = tuple(f"a{k}" for k in range(12))
SIZE, BATCH = 256, 16
TRITON = kernels.AVAILABLE


def random_pack(folder: Path, episodes: int = 10, length: int = 100, size: int = SIZE) -> None:
    """Random demonstrations of the real sizes."""
    rng = np.random.default_rng(0)
    n = episodes * length
    rows = [
        Demonstration(k * length, (k + 1) * length, "move", "toy", "Move", k, certified=True)
        for k in range(episodes)
    ]
    head = {
        "cameras": list(CAMERAS),
        "state_names": list(STATE),
        "action_names": list(ACTION),
        "fps": 20,
    }
    states, actions = rng.normal(size=(n, len(STATE))), rng.uniform(-1, 1, (n, len(ACTION)))
    frames = (rng.integers(0, 256, (len(CAMERAS), size, size, 3), dtype=np.uint8) for _ in range(n))
    write_pack(folder, head, frames, states.astype(np.float32), actions.astype(np.float32), rows)


def spec_of(policy: str, demonstrations: data.Demonstrations, **changes: object) -> PolicySpec:
    """A policy with the paper's settings."""
    settings = make_settings(policy, changes)
    fitted = normalizer.fit(
        "act" if policy == "act" else "diffusion",
        demonstrations.states,
        demonstrations.actions,
        STATE,
    )
    return PolicySpec(
        settings, CAMERAS, demonstrations.size, STATE, ACTION, 20, fitted, instructions=("move",)
    )


def wait(device: torch.device) -> None:
    """Until the device has done everything asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate(step: Callable[[], object], steps: int, device: torch.device, warm: int = 3) -> float:
    """Calls per second."""
    for _ in range(warm):
        step()
    wait(device)
    began = time.perf_counter()
    for _ in range(steps):
        step()
    wait(device)
    return steps / (time.perf_counter() - began)


def ours(
    policy: str,
    pack: Path,
    device: torch.device,
    steps: int,
    *,
    graphed: bool,
    streamed: bool = False,
    fused: bool = True,
) -> float:
    """Training steps per second of our loop; `streamed`: frames from the file, as packs that do not
    fit on the device; `fused`: with our kernels.
    """
    torch.manual_seed(0)
    for module in (kernels, trainer):
        module.AVAILABLE = fused and TRITON
    demonstrations = data.load([pack], window=20)
    spec = spec_of(policy, demonstrations)
    net = spec.network().to(device)
    if device.type == "cuda":
        net.to(memory_format=torch.channels_last)
    batches = Batches(
        demonstrations, spec, device, 0, on_device=device.type == "cuda" and not streamed
    )
    stepper = Stepper(
        [Trainer(net, spec.settings, batches, 10**5, device)], device, graphed=graphed
    )
    try:
        return rate(stepper.advance, steps, device)
    finally:
        batches.close()


def lerobot_rate(
    policy: str, folder: Path | None, device: torch.device, steps: int, size: int = SIZE
) -> float:
    """Training steps per second of LeRobot's network with its own loss, optimiser and clipping."""
    torch.manual_seed(0)
    images = {
        f"observation.images.{c}": torch.randn(BATCH, 3, size, size, device=device) for c in CAMERAS
    }
    if policy == "act":
        net = lerobot_act(folder).to(device)
        batch = {
            "observation.images": list(images.values()),
            "observation.state": torch.randn(BATCH, 9, device=device),
        }
        batch |= {
            "action": torch.randn(BATCH, 20, 12, device=device),
            "action_is_pad": torch.zeros(BATCH, 20, dtype=torch.bool, device=device),
        }

        def loss() -> torch.Tensor:
            actions, (mean, log_variance) = net(batch)
            l1 = ((batch["action"] - actions).abs() * ~batch["action_is_pad"][..., None]).mean()
            return (
                l1 + 10 * (-0.5 * (1 + log_variance - mean**2 - log_variance.exp())).sum(-1).mean()
            )

        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, weight_decay=1e-4)
    else:
        net = lerobot_diffusion(folder, size).to(device)
        # (B, 2, cameras, 3, H, W).
        stacked = torch.stack([torch.stack([i, i], dim=1) for i in images.values()], dim=2)
        batch = {
            "observation.images": stacked,
            "observation.state": torch.randn(BATCH, 2, 9, device=device),
        }
        batch |= {
            "action": torch.randn(BATCH, 16, 12, device=device),
            "action_is_pad": torch.zeros(BATCH, 16, dtype=torch.bool, device=device),
        }

        def loss() -> torch.Tensor:
            return net.compute_loss(batch)

        optimizer = torch.optim.Adam(
            net.parameters(), lr=1e-4, betas=(0.95, 0.999), weight_decay=1e-6
        )
    net.train()

    def step() -> None:
        value = loss()
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        value.item()  # LeRobot's loop reads the loss at every step

    return rate(step, steps, device)


def lerobot_act(folder: Path | None) -> nn.Module:
    """LeRobot's ACT network with the paper's sizes and no downloaded weights."""
    module = lerobot_module("act", folder)
    config = SimpleNamespace(
        use_vae=True, dim_model=512, n_heads=8, dim_feedforward=3200, n_encoder_layers=4, n_decoder_layers=1, n_vae_encoder_layers=4,
        latent_dim=32, dropout=0.1, pre_norm=False, feedforward_activation="relu", chunk_size=20, vision_backbone="resnet18",
        pretrained_backbone_weights=None, replace_final_stride_with_dilation=False, robot_state_feature=SimpleNamespace(shape=(9,)),
        env_state_feature=None, action_feature=SimpleNamespace(shape=(12,)), image_features=dict.fromkeys(CAMERAS),
    )  # fmt: skip
    return module.ACT(config)


def lerobot_diffusion(folder: Path | None, size: int) -> nn.Module:
    """LeRobot 0.4's Diffusion UNet with its defaults."""
    module = lerobot_module("diffusion", folder)
    image = SimpleNamespace(shape=(3, size, size))
    config = SimpleNamespace(
        n_obs_steps=2, horizon=16, n_action_steps=8, vision_backbone="resnet18", crop_shape=None, crop_is_random=True,
        pretrained_backbone_weights=None, use_group_norm=True, spatial_softmax_num_keypoints=32, use_separate_rgb_encoder_per_camera=False,
        down_dims=(512, 1024, 2048), kernel_size=5, n_groups=8, diffusion_step_embed_dim=128, use_film_scale_modulation=True,
        noise_scheduler_type="DDPM", num_train_timesteps=100, beta_schedule="squaredcos_cap_v2", beta_start=1e-4, beta_end=0.02,
        prediction_type="epsilon", clip_sample=True, clip_sample_range=1.0, num_inference_steps=None, do_mask_loss_for_padding=False,
        resize_shape=None, crop_ratio=1.0, compile_model=False, compile_mode="reduce-overhead",
        robot_state_feature=SimpleNamespace(shape=(9,)), env_state_feature=None, action_feature=SimpleNamespace(shape=(12,)),
        image_features=dict.fromkeys(CAMERAS, image),
    )  # fmt: skip
    return module.DiffusionModel(config)


def lerobot_module(policy: str, folder: Path | None) -> types.ModuleType:
    """LeRobot's network file: from the installed package, or alone from an unpacked wheel (its
    package imports datasets and the hub).
    """
    name = f"lerobot.policies.{policy}.modeling_{policy}"
    if folder is None:
        return importlib.import_module(name)
    constants = SimpleNamespace(
        ACTION="action",
        OBS_ENV_STATE="observation.environment_state",
        OBS_IMAGES="observation.images",
        OBS_STATE="observation.state",
    )
    plumbing = {
        f"lerobot.policies.{policy}.configuration_{policy}": {
            "ACTConfig": object,
            "DiffusionConfig": object,
        },
        "lerobot.policies.pretrained": {"PreTrainedPolicy": nn.Module},
        "lerobot.utils.constants": vars(constants),
        "lerobot.policies.utils": {
            "get_device_from_parameters": lambda m: next(iter(m.parameters())).device,
            "get_dtype_from_parameters": lambda m: next(iter(m.parameters())).dtype,
            "get_output_shape": lambda m, shape: tuple(m(torch.zeros(shape)).shape),
            "populate_queues": None,
        },
    }
    for module, names in plumbing.items():
        parts = module.split(".")
        for k in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:k]), types.ModuleType(".".join(parts[:k])))
        vars(sys.modules[module]).update(names)
    place = folder / "lerobot" / "policies" / policy / f"modeling_{policy}.py"
    spec = importlib.util.spec_from_file_location(f"lerobot_{policy}", place)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def latency_ms(policy: str, pack: Path, device: str, *, graphed: bool, repeats: int) -> float:
    """Median time from an observation to a chunk of actions, batch 1."""
    demonstrations = data.load([pack], window=20)
    spec = spec_of(policy, demonstrations)
    chosen = Policy(spec, spec.network(), device, graphed=graphed)  # type: ignore[arg-type]
    observation = {
        "images": dict(zip(CAMERAS, demonstrations.images[0][0], strict=True)),
        "state": demonstrations.states[0],
        "instruction": "move",
    }
    times = []
    for _ in range(repeats + 2):
        chosen.reset()
        began = time.perf_counter()
        chosen.act(observation)
        times.append(1000 * (time.perf_counter() - began))
    return float(np.median(times[2:]))


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--device", default="auto")
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--lerobot", type=Path, default=None)
    options.add_argument("--only", default="")
    options.add_argument("--size", type=int, default=SIZE, help="of the pictures")
    given = options.parse_args()
    device = choose_device(given.device)
    prepare(device)
    machine = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else platform.processor() or platform.machine()
    )
    pictures = f"three {given.size}x{given.size} cameras"
    about = f"batch {BATCH}, {pictures}, {given.steps} steps"
    print(f"torch {torch.__version__} on {machine}, {about}", flush=True)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, True
    few = max(1, given.steps // 5)
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "pack"
        random_pack(pack, size=given.size)
        rows: list[tuple[str, Callable[[], float]]] = [
            (
                "ACT, ours, one CUDA graph",
                lambda: ours("act", pack, device, given.steps, graphed=True),
            ),
            (
                "ACT, one CUDA graph, streamed",
                lambda: ours("act", pack, device, given.steps, graphed=True, streamed=True),
            ),
            (
                "ACT, one CUDA graph, no own kernels",
                lambda: ours("act", pack, device, given.steps, graphed=True, fused=False),
            ),
            ("ACT, ours, eager", lambda: ours("act", pack, device, few, graphed=False)),
            (
                "ACT, LeRobot's network",
                lambda: lerobot_rate("act", given.lerobot, device, few, given.size),
            ),
            (
                "Diffusion, ours, one CUDA graph",
                lambda: ours("diffusion", pack, device, given.steps, graphed=True),
            ),
            (
                "Diffusion, one CUDA graph, streamed",
                lambda: ours("diffusion", pack, device, given.steps, graphed=True, streamed=True),
            ),
            (
                "Diffusion, one CUDA graph, no own kernels",
                lambda: ours("diffusion", pack, device, given.steps, graphed=True, fused=False),
            ),
            ("Diffusion, ours, eager", lambda: ours("diffusion", pack, device, few, graphed=False)),
            (
                "Diffusion UNet, LeRobot's network",
                lambda: lerobot_rate("diffusion", given.lerobot, device, few, given.size),
            ),
        ]
        if device.type != "cuda":
            rows = [r for r in rows if "graph" not in r[0]]
        for name, measure in (row for row in rows if given.only in row[0]):
            try:
                print(f"{name:42s} {measure():8.1f} steps/s", flush=True)
            except (ImportError, AttributeError, RuntimeError) as error:
                # A LeRobot or torchvision that does not fit the torch at hand.
                print(f"{name:42s} not measured: {error}", flush=True)
            if device.type == "cuda":
                torch.cuda.empty_cache()
        for module in (kernels, trainer):
            module.AVAILABLE = TRITON
        for policy, where in itertools.product(("act", "diffusion"), ("GPU", "CPU")):
            name, on_gpu = f"{policy}, one chunk on the {where}", where == "GPU"
            if given.only not in name or (on_gpu and device.type != "cuda"):
                continue
            place, repeats = (str(device), 20) if on_gpu else ("cpu", 3)
            took = latency_ms(policy, pack, place, graphed=on_gpu, repeats=repeats)
            print(f"{name:42s} {took:8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
