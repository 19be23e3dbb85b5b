"""robomimic and RoboCasa's HDF5 layout, one file: demo.hdf5.

    data                      attributes env_args (JSON), total (samples)
    data/demo_0               attributes num_samples, model_file (MJCF), ep_meta (JSON with "lang"),
                              capex (JSON: provenance)
    data/demo_0/actions       (T, A) native actions, before each of which stands
    data/demo_0/states        (T, 1+nq+nv) MuJoCo's time, positions and velocities
    data/demo_0/obs/KEY       (T, ...) observations: pictures as uint8, proprioception as float64
    data/demo_0/rewards, dones    1 in the last row of a success, 1 in the last row
    data/demo_0/capex/...     the annotations of capex.dataset.frames, and complete_states: every
                              bit needed to continue
    mask/train, mask/valid    names of demonstrations; every tenth is kept for validation

Workers shoot one demonstration each into a file of its own; the parent copies the compressed chunks
as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from capex import worlds
from capex.dataset.frames import Pipeline, Take, open_take
from capex.dataset.language import spans
from capex.dataset.provenance import provenance
from capex.dataset.selection import Candidate
from capex.dataset.shards import Tell, shoot_in_order
from capex.dataset.views import RenderedViews
from capex.errors import CapexError, ErrorCode

FILE = "demo.hdf5"
VALID_EVERY = 10
# What RoboCasa calls the same things; a camera or number of another world keeps its own name.
CAMERAS = {
    "left": "robot0_agentview_left",
    "right": "robot0_agentview_right",
    "wrist": "robot0_eye_in_hand",
}
PROPRIO = {
    "robot0_base_to_eef_pos": ("eef_x", "eef_y", "eef_z"),
    "robot0_base_to_eef_quat": ("eef_qx", "eef_qy", "eef_qz", "eef_qw"),
    "robot0_gripper_qpos": ("finger_left", "finger_right"),
    "robot0_base": ("base_x", "base_y", "base_yaw"),
}
PACKED = {"compression": "gzip", "compression_opts": 1, "shuffle": False}


@dataclass(frozen=True)
class DemoJob:
    """One demonstration for a worker."""

    attempt: Candidate
    pipeline: Pipeline
    shard: Path


@dataclass(frozen=True)
class DemoFile:
    """What a worker leaves: a file with the group `demo`, and robomimic's environment arguments."""

    path: Path
    env_args: dict[str, Any]


def shoot(job: DemoJob) -> DemoFile:
    """A worker's task: render a demonstration and write it."""
    take = open_take(job.attempt.summary.path)
    spec, record = take.spec, take.record
    rendered = take.views if isinstance(take.views, RenderedViews) else None
    model = worlds.model_file(rendered.env) if rendered is not None else None
    if model is None:
        raise CapexError(
            f"{spec.name} has no MuJoCo model; export it with --format lerobot",
            code=ErrorCode.UNSUPPORTED,
        )
    start = {"index": record.start, "seed": record.seed}
    ep_meta = {"lang": record.instruction, "scene": record.scene, "start": start}
    with h5py.File(job.shard, "w") as file:
        demo = file.create_group("demo")
        demo.attrs["num_samples"] = take.length
        demo.attrs["model_file"] = model.xml
        demo.attrs["ep_meta"] = json.dumps(dict(model.episode_meta) | ep_meta)
        names = {"action_names": spec.action_names, "state_names": take.state_names}
        demo.attrs["capex"] = json.dumps(provenance(job.attempt, take, job.pipeline) | names)
        _put(demo, "actions", take.action)
        _put(demo, "states", take.steps["states"][:-1, : model.state_size])
        outcomes = take.outcomes()
        _put(demo, "rewards", outcomes["next.reward"].astype(np.float64))
        _put(demo, "dones", outcomes["next.done"].astype(np.int64))
        for name, values in take.annotations().items():
            _put(demo, f"capex/{name.removeprefix('capex.')}", values)
        _put(demo, "capex/complete_states", take.steps["states"][:-1])
        words = [vars(span) for span in spans(take)]
        demo.create_dataset("capex/language", data=json.dumps(words))
        for key, values in _proprio(take).items():
            _put(demo, f"obs/{key}", values)
        _put_pictures(demo, job.pipeline, take)
    return DemoFile(job.shard, dict(model.env_args))


def _put(group: h5py.Group, name: str, values: npt.NDArray[Any]) -> None:
    group.create_dataset(name, data=values, **PACKED)


def _put_pictures(demo: h5py.Group, pipeline: Pipeline, take: Take) -> None:
    """Pictures frame by frame, one chunk each."""

    def create(camera: str, kind: str, dtype: str, channels: int) -> h5py.Dataset:
        width, height = pipeline.sizes[camera]
        name, shape = f"obs/{CAMERAS.get(camera, camera)}_{kind}", (height, width, channels)
        return demo.create_dataset(name, (take.length, *shape), dtype, chunks=(1, *shape), **PACKED)

    cameras = pipeline.cameras
    pictures = {camera: create(camera, "image", "uint8", 3) for camera in cameras}
    deep = cameras if pipeline.depth else ()
    depths = {camera: create(camera, "depth", "float32", 1) for camera in deep}
    for frame, images in enumerate(take.pictures(pipeline)):
        for camera, image in images.items():
            pictures[camera][frame] = image
        for camera, dataset in depths.items():
            dataset[frame] = take.views.depth_m(camera, pipeline.sizes[camera])[..., None]


def _proprio(take: Take) -> dict[str, npt.NDArray[Any]]:
    """The state by robosuite's names where it has those numbers, and the rest under its own."""
    names = list(take.state_names)
    known = {key: parts for key, parts in PROPRIO.items() if set(parts) <= set(names)}
    taken = {n for parts in known.values() for n in parts}
    columns = {key: [names.index(n) for n in parts] for key, parts in known.items()}
    columns |= {n: [k] for k, n in enumerate(names) if n not in taken}
    state = take.state
    return {key: state[:, indices] for key, indices in columns.items()}


def _shared(arguments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What environments of several tasks and seeds have in common."""
    shared: dict[str, Any] = {}
    for key, value in arguments[0].items():
        values: list[Any] = [a.get(key) for a in arguments]
        if all(other == value for other in values):
            shared[key] = value
        elif all(isinstance(other, Mapping) for other in values):
            shared[key] = _shared(values)
    return shared


def write_file(
    folder: Path, attempts: Sequence[Candidate], pipeline: Pipeline, *, parallel: int, tell: Tell
) -> None:
    """Write demo.hdf5 into a folder. The attributes that make it complete come last."""
    shards = folder / "shards"
    shards.mkdir()
    jobs = [
        DemoJob(attempt, pipeline, shards / f"{number:06d}.hdf5")
        for number, attempt in enumerate(attempts)
    ]
    env_args: list[dict[str, Any]] = []
    names = [f"demo_{number}" for number in range(len(jobs))]
    with h5py.File(folder / FILE, "w") as file:
        data = file.create_group("data")
        for name, shard in zip(names, shoot_in_order(shoot, jobs, parallel, tell), strict=True):
            with h5py.File(shard.path, "r") as source:
                source.copy("demo", data, name=name)
            shard.path.unlink()
            env_args.append(shard.env_args)
        valid = names[min(VALID_EVERY, len(names)) - 1 :: VALID_EVERY] if len(names) > 1 else []
        train = [name for name in names if name not in valid]
        for mask, members in (("train", train), ("valid", valid)):
            file.create_dataset(f"mask/{mask}", data=np.array(members, dtype="S"))
        env_names = ",".join(dict.fromkeys(str(args["env_name"]) for args in env_args))
        data.attrs["env_args"] = json.dumps(_shared(env_args) | {"env_name": env_names})
        data.attrs["total"] = sum(a.summary.steps for a in attempts)
    shards.rmdir()
