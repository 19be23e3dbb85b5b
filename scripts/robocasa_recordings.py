"""Record with RoboCasa's own tools what the expert did, so that there are demonstrations in
RoboCasa's layout where the published ones cannot be had.

    python scripts/robocasa_recordings.py RUN OUT [--episodes 2]

RUN is a run of `capex expert robocasa:TASK --starts fresh:0:5`, or of any other demonstrator. Each
success is done once more: RoboCasa's environment at the same start, inside robosuite's
DataCollectionWrapper, steps through the recorded native actions by its own `env.step`, and the
states are compared bit by bit. RoboCasa's own function then gathers the episodes into
OUT/demo.hdf5; with pyarrow, OUT/lerobot gets what RoboCasa's datasets hold beside it (extras, meta,
actions). OUT/first_frames.npz holds the first frames, drawn by robosuite's renderer.
"""

from __future__ import annotations

import ast
import datetime
import importlib.util
import json
import os
import sys
import tempfile
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from capex import worlds
from capex.run import load_run
from capex.run.steps import read_steps

SIZE = 256
# The last action is repeated so often: people go on for a moment, and the state after the last
# recorded one has to be simulated without what a controller remembers.
AFTER = 2


def record(episode: Any, folder: Path) -> tuple[bool, dict[str, Any], dict[str, Any]]:
    """One episode in RoboCasa's environment: whether every state was equal and the end a success,
    its first frames, and how its environment was made.
    """
    from robosuite.wrappers import DataCollectionWrapper

    steps, known = read_steps(episode.path), episode.record
    source: Any = worlds.make(f"{known.world}:{known.task}")
    built = source.start_source.build(worlds.Start(known.task, known.start, known.seed))
    suite = built.env
    # A render context computes the dynamics once more, which warms the solver up: frames come
    # first, and then the recorder loads the start anew.
    frames = first_frames(suite)
    wrapped = DataCollectionWrapper(suite, str(folder), use_env_xml_for_reset=True)
    wrapped._start_new_episode()
    size = suite.sim.get_state().flatten().size
    equal = True
    for action, state in zip(steps["actions"], steps["states"][1:], strict=True):
        wrapped.step(np.array(action))
        equal = equal and np.array_equal(suite.sim.get_state().flatten(), state[:size])
    for _ in range(AFTER):
        wrapped.step(np.array(steps["actions"][-1]))
    success = bool(suite._check_success())
    wrapped.close()
    return equal and success, frames, built.env_args


def first_frames(suite: Any) -> dict[str, Any]:
    """What robosuite's own renderer draws, without shadows and smoothing, as ours does."""
    from robosuite.utils.binding_utils import MjRenderContextOffscreen

    suite.sim.model._model.vis.quality.offsamples = 0
    suite.sim.model._model.vis.quality.shadowsize = 0
    context = MjRenderContextOffscreen(suite.sim, device_id=-1)
    suite.sim.add_render_context(context)
    context.vopt.geomgroup[0] = 0
    names = ("robot0_agentview_left", "robot0_agentview_right", "robot0_eye_in_hand")
    return {
        name: suite.sim.render(camera_name=name, width=SIZE, height=SIZE)[::-1] for name in names
    }


def gather(folder: Path, out: Path, env_info: str) -> Path:
    """RoboCasa's own gathering of episodes into one file; its module wants devices, so that the
    function alone is taken from it.
    """
    import h5py
    import mujoco
    import robocasa
    import robosuite
    from robocasa.utils.robomimic.robomimic_dataset_utils import convert_to_robomimic_format

    source = Path(robocasa.__path__[0], "scripts", "collect_demos.py").read_text(encoding="utf-8")
    wanted = "gather_demonstrations_as_hdf5"
    found = [n for n in ast.parse(source).body if getattr(n, "name", "") == wanted]
    space: dict[str, Any] = {
        "os": os, "h5py": h5py, "datetime": datetime, "mujoco": mujoco, "glob": glob, "np": np,
        "robosuite": robosuite, "robocasa": robocasa,
    }  # fmt: skip
    exec(compile(ast.Module(found, []), wanted, "exec"), space)
    path = space[wanted](str(folder), str(out), env_info)
    convert_to_robomimic_format(path)
    return Path(path)


def lay_out(demos: Path, out: Path) -> None:
    """What RoboCasa's datasets hold beside videos: extras, meta and actions, by its functions."""
    import h5py
    import pyarrow
    import pyarrow.parquet
    import robocasa
    from robocasa.utils import lerobot_utils

    assets = Path(robocasa.__path__[0], "models", "assets", "groot_dataset_assets")
    modality = json.loads((assets / "PandaOmron_modality.json").read_text())
    for part in ("extras", "meta", "data/chunk-000"):
        (out / part).mkdir(parents=True, exist_ok=True)
    with h5py.File(demos) as file:
        lerobot_utils.save_dataset_meta(out, file)
        for number, name in enumerate(file["data"]):
            lerobot_utils.save_extra_demo_info(out, file["data"], name, number)
            actions = lerobot_utils.reorder_hdf5_action(file["data"][name]["actions"][:], modality)
            table = pyarrow.table({"action": list(actions)})
            path = out / "data/chunk-000" / f"episode_{number:06d}.parquet"
            pyarrow.parquet.write_table(table, path)
    (out / "meta" / "modality.json").write_text(json.dumps(modality))


def main(run: Path, out: Path, most: int) -> int:
    """Record the first successes of a run."""
    good = [episode for episode in load_run(run).episodes if episode.success][:most]
    if not good:
        print(f"{run} has no success to record")
        return 1
    out.mkdir(parents=True, exist_ok=True)
    drawn, all_equal = {}, True
    with tempfile.TemporaryDirectory() as folder:
        for number, episode in enumerate(good):
            equal, frames, made = record(episode, Path(folder))
            what = f"start {episode.record.start}: {episode.record.steps} steps"
            print(f"{what}, {'equal' if equal else 'NOT equal'}", flush=True)
            drawn |= {f"{number}/{name}": frame for name, frame in frames.items()}
            all_equal = all_equal and equal
        kwargs = {"env_name": made["env_name"], **made["env_kwargs"]}
        demos = gather(Path(folder), out, json.dumps(kwargs))
    np.savez_compressed(out / "first_frames.npz", **drawn)
    if importlib.util.find_spec("pyarrow"):
        lay_out(demos, out / "lerobot")
    print(f"{len(good)} episodes in {demos}")
    return 0 if all_equal else 1


if __name__ == "__main__":
    options = sys.argv[1:]
    most = int(options[options.index("--episodes") + 1]) if "--episodes" in options else 2
    sys.exit(main(Path(options[0]), Path(options[1]), most))
