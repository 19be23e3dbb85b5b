"""Feeds a demonstration's native actions to a plain robosuite environment, made without capex, and
says whether the task is achieved.

    python examples/replay_in_robosuite.py runs/NAME/chains/robosuite--Lift--capex/episodes/0000
    python examples/replay_in_robosuite.py DATASET/demo.hdf5 [demo_0]

An episode of a run is built again from its seed; a demonstration of an exported HDF5 file is
restored from its model and first state, as robosuite's own playback scripts do it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import robosuite

QUIET = {
    "has_renderer": False,
    "has_offscreen_renderer": False,
    "use_camera_obs": False,
    "ignore_done": True,
}
SETTLE_STEPS = 10  # a seeded start lets things come to rest first: ten control steps of zeros
# The 12 numbers of the mobile robot, as RoboCasa orders them.
PART_ORDER = ["right", "right_gripper", "base", "torso"]


def seeded(episode: Path) -> tuple[Any, np.ndarray]:
    """The environment at the episode's start, and its actions."""
    record = json.loads((episode / "record.json").read_text())
    robot = "Panda" if record["world"] == "robosuite-panda" else "PandaOmron"
    controllers = robosuite.load_composite_controller_config(robot=robot)
    if robot == "PandaOmron":
        controllers.setdefault("composite_controller_specific_configs", {})[
            "body_part_ordering"
        ] = PART_ORDER
    seed = [record["seed"], record["start"]]
    env = robosuite.make(
        record["task"],
        robots=robot,
        controller_configs=controllers,
        control_freq=20,
        seed=seed,
        **QUIET,
    )
    for _ in range(SETTLE_STEPS):
        env.step(np.zeros(env.action_dim))
    with np.load(episode / "steps.npz") as steps:
        return env, steps["actions"]


def restored(file: Path, demo: str) -> tuple[Any, np.ndarray]:
    """The environment at a demonstration's first state, and its actions."""
    import h5py

    with h5py.File(file, "r") as source:
        arguments, group = json.loads(source["data"].attrs["env_args"]), source["data"][demo]
        model, states, actions = group.attrs["model_file"], group["states"][:], group["actions"][:]
    env = robosuite.make(arguments["env_name"], **arguments["env_kwargs"])
    env.reset()
    env.reset_from_xml_string(env.edit_model_xml(model))
    env.sim.reset()
    env.sim.set_state_from_flattened(states[0])
    env.sim.forward()
    # It measured, and chose the posture it returns to, before the state was set.
    arm = env.robots[0].part_controllers["right"]
    arm.update_initial_joints(env.sim.data.qpos[arm.qpos_index])
    return env, actions


def replay(path: Path, demo: str = "demo_0") -> int | None:
    """The step at which the task is achieved, or None."""
    env, actions = seeded(path) if path.is_dir() else restored(path, demo)
    for step, action in enumerate(actions):
        env.step(action.copy())  # robosuite's base controller writes into its argument
        if env._check_success():
            return step + 1
    return None


if __name__ == "__main__":
    achieved = replay(Path(sys.argv[1]), *sys.argv[2:3])
    print(f"achieved after {achieved} actions" if achieved else "not achieved")
    sys.exit(0 if achieved else 1)
