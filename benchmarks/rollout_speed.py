"""Where the time of rollouts goes: physics, drawing, the network, waiting; and how many a second.

    python benchmarks/rollout_speed.py [--policy act diffusion] [--task kitchen:TurnOnMicrowave]
        [--starts 1000:1050] [--horizon 0] [--parallel 0] [--device auto] [--size 256] [--small]

The networks have the paper's sizes (--small: tiny ones) and random weights; what they do does not
change how long it takes. Moving: from when all worlds are ready, with the first question to the
network, to the end of the last rollout; starting processes and worlds and loading the policy are in
wall alone. Shares come from the rollouts' timing.json, as `capex evaluate` has it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from capex import worlds
from capex.campaign.names import parse_starts
from capex.run.files import read_json
from capex.run.summary import Summary
from capex.students import checkpoint, normalizer
from capex.students.data import HIDDEN_STATE
from capex.students.device import choose_device
from capex.students.evaluate import Rollouts, evaluate, share_out
from capex.students.settings import make_settings
from capex.students.spec import PolicySpec
from capex.students.tables import TIMES, time_shares
from capex.worlds import Spec

SMALL = {
    "act": {"dim": 32, "heads": 2, "feedforward": 64, "encoder_layers": 1, "width": 16},
    "diffusion": {"dim": 32, "heads": 2, "layers": 2, "width": 16, "diffusion_steps": 4},
}


def write_policy(
    folder: Path,
    policy: str,
    spec: Spec,
    numbers: tuple[np.ndarray, np.ndarray],
    *,
    size: int,
    small: bool,
) -> Path:
    """A checkpoint with random weights that fits a world; `numbers`: states and actions that its
    normaliser is fitted to.
    """
    shown = [k for k, name in enumerate(spec.state_names) if not name.startswith(HIDDEN_STATE)]
    names = tuple(spec.state_names[k] for k in shown)
    states, actions = (values.astype(np.float32) for values in numbers)
    kind = "act" if policy == "act" else "diffusion"
    fitted = normalizer.fit(kind, states[:, shown], actions, names)
    described = PolicySpec(
        make_settings(policy, SMALL[policy] if small else {}),
        tuple(camera.name for camera in spec.cameras),
        (size, size),
        names,
        spec.action_names,
        spec.control_hz,
        fitted,
        training={"steps": 1},
    )
    torch.manual_seed(0)
    checkpoint.write_policy(folder, described, described.network().state_dict())
    return folder


def world_of(task: str) -> tuple[Spec, tuple[np.ndarray, np.ndarray]]:
    """A world, and made-up states and actions of its robot."""
    env = worlds.make(task)
    env.reset(worlds.Start(env.spec.task, 0))
    spec, state = env.spec, env.robot_state().proprio
    env.close()
    rng = np.random.default_rng(0)
    states = state + 0.1 * rng.normal(size=(64, len(state)))
    return spec, (states, rng.uniform(-1, 1, (64, len(spec.action_names))))


def timed(job: Rollouts) -> tuple[list[Summary], float, float]:
    """Rollouts, the seconds they took, and those of moving."""
    asked: list[float] = []
    began = time.perf_counter()
    done, ended = [], began
    for episode in evaluate(job, lambda left, steps: asked.append(time.perf_counter())):
        done.append(episode)
        ended = time.perf_counter()
    return done, time.perf_counter() - began, ended - asked[0]


def main() -> None:
    """Print a line per policy."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--policy", nargs="+", default=["act", "diffusion"])
    options.add_argument("--task", default="kitchen:TurnOnMicrowave")
    options.add_argument("--starts", default="1000:1050")
    options.add_argument("--horizon", type=int, default=0)
    options.add_argument("--parallel", type=int, default=0)
    options.add_argument("--device", default="auto")
    options.add_argument("--size", type=int, default=256)
    options.add_argument("--small", action="store_true")
    given = options.parse_args()
    starts, cores = tuple(parse_starts(given.starts)), os.cpu_count()
    device = choose_device(given.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    _, processes = share_out(len(starts), given.parallel)
    where = f"{len(starts)} rollouts of {given.task}, {processes} processes on {cores}"
    print(f"{where} cores, network on {name}, three {given.size}x{given.size} images")
    heads = ("policy", "wall s", "moving s", "rollouts/s", "steps/s", *TIMES)
    print("".join(f"{head:>12s}" for head in heads))
    for policy in given.policy:
        with tempfile.TemporaryDirectory() as scratch:
            spec, numbers = world_of(given.task)
            kind = {"size": given.size, "small": given.small}
            folder = write_policy(Path(scratch, policy), policy, spec, numbers, **kind)
            job = Rollouts(
                folder,
                given.task,
                starts,
                Path(scratch, "run"),
                parallel=given.parallel,
                device=given.device,
                horizon=given.horizon,
            )
            done, wall, moving = timed(job)
            times = [read_json(path) for path in Path(scratch).rglob("timing.json")]
        shares = time_shares(times).values()
        steps = sum(e.steps for e in done)
        numbers = f"{wall:12.1f}{moving:12.1f}{len(done) / moving:12.2f}{steps / moving:12.0f}"
        print(f"{policy:>12s}{numbers}" + "".join(f"{share:12.0%}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
