"""RoboCasa365's checkpoint: read from a file in its layout at its full shapes, without running what the file names."""

from __future__ import annotations

import io
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import student_data
from capex.errors import ErrorCode
from capex.students import data, language, robocasa
from capex.students.diffusion import Diffusion
from capex.students.settings import DiffusionSettings
from capex.students.train import TrainingJob, describe
from refusals import refuses

ORDER = ("robot0_eye_in_hand_image", "robot0_agentview_left_image", "robot0_agentview_right_image", "robot0_base_to_eef_pos",
         "robot0_base_to_eef_quat", "robot0_gripper_qpos", "lang_emb")  # fmt: skip

# In which RoboCasa's own datasets keep the same twelve numbers.
LEROBOT_ORDER = (*student_data.ACTION[7:11], "mode", *student_data.ACTION[:7])


class Node:
    """Stands for a configuration object of a package that is not installed here."""

    def __init__(self, content):
        self._content = content

    def __getstate__(self):
        return {"_metadata": None, "_content": self._content}


class Trap:
    """Unpickling it as it is would write a file."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (Path.write_text, (self.target, "ran"))


def shapes() -> Diffusion:
    """The network at full size without memory behind it."""
    with torch.device("meta"):
        return Diffusion(DiffusionSettings(), 3, 9, 12)


def payload(trap: Path) -> dict[str, object]:
    """Full shapes; every tensor is a view of one number, so that the file stays small."""
    net = shapes()
    state: OrderedDict[str, torch.Tensor] = OrderedDict()

    def put(name: str, shape: torch.Size, value: float) -> None:
        state[name] = torch.full((1,), value).expand(shape)

    cameras = [name.removesuffix("_image") for name in ORDER[:3]]
    for name, tensor in net.state_dict().items():
        if name.startswith("model."):
            put(name, tensor.shape, 0.25)
        elif name.startswith("cameras.0."):
            inner = name.removeprefix("cameras.0.")
            for k, camera in enumerate(cameras):
                put(
                    f"obs_encoder.obs_nets.{camera}_image.{theirs(inner)}",
                    tensor.shape,
                    float(k + 1),
                )
    weight = torch.arange(969.0).expand(512, 969)  # the columns tell where they came from
    state["model.cond_obs_emb.weight"] = weight
    state["model._dummy_variable"] = torch.zeros(0)
    state["model.mask"] = torch.zeros(10, 10)
    for key, size in (*((k, len(n)) for k, n in robocasa.STATE.items()), ("action", 12)):
        put(f"normalizer.params_dict.{key}.scale", torch.Size([size]), 2.0)
        put(f"normalizer.params_dict.{key}.offset", torch.Size([size]), 0.5)
    cfg = Node({"shape_meta": Node({"obs": Node({key: Node(None) for key in ORDER})})})
    return {
        "cfg": cfg,
        "trap": Trap(trap),
        "state_dicts": {"model": {}, "ema_model": state},
        "pickles": {"epoch": b"\x80\x04K\x01."},
    }


def theirs(name: str) -> str:
    """Our name of a camera's parameter as the released checkpoint spells it."""
    head, _, rest = name.partition(".")
    if head == "keypoints":
        return f"pool.nets.{rest}"
    if head == "linear":
        return f"nets.2.{rest}"
    part, _, tail = rest.partition(".")
    if part in ("conv1", "bn1"):
        return f"backbone._base_block.{0 if part == 'conv1' else 1}.{tail}"
    if part == "films":
        return f"backbone._film_layers.{tail}"
    block, _, inner = tail.partition(".")
    return f"backbone._conv_blocks.{2 * (int(part[-1]) - 1) + int(block)}.{inner}"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    torch.save(payload(folder / "ran"), folder / "epoch=0500.ckpt")
    return folder / "epoch=0500.ckpt"


def test_the_released_layout_fills_our_network_and_nothing_runs(released):
    weights, normalizer = robocasa.read(released, DiffusionSettings(), ("left", "right", "wrist"))
    assert not (released.parent / "ran").exists()
    net = shapes()
    missing, unexpected = net.load_state_dict(weights, strict=False, assign=True)
    assert (missing, unexpected) == (["instructions.weight"], [])
    assert [float(net.cameras[k].backbone.conv1.weight.detach().mean()) for k in range(3)] == [
        2.0,
        3.0,
        1.0,
    ]  # the wrist comes first there
    columns = net.model.cond_obs_emb.weight[0].detach()
    assert [float(columns[k]) for k in (0, 64, 128, 192, 201)] == [64.0, 128.0, 0.0, 192.0, 201.0]
    assert normalizer.state.scale.tolist() == [2.0] * 9


def test_a_training_begins_from_the_released_file(released, tmp_path):
    pack = student_data.write(tmp_path / "pack")
    job = TrainingJob((pack,), DiffusionSettings(), 1, tmp_path / "out", init=released)
    with refuses(ErrorCode.MISMATCH, r"given embeddings .* with --instructions"):
        describe(job, data.load([pack], window=10))
    clip = tmp_path / "clip.npz"
    language.write(clip, {"go to the square": np.ones(768, dtype=np.float32)})
    job = replace(job, instructions=clip)
    spec, weights = describe(job, data.load([pack], window=10))
    assert spec.initialisation == "fine-tuned from epoch=0500.ckpt"
    assert spec.normalizer.action.scale.tolist() == [2.0] * 12
    assert weights["model.cond_obs_emb.weight"].shape == (512, 969)
    one = student_data.write(tmp_path / "one", cameras=("front",))
    with refuses(ErrorCode.MISMATCH, "the dataset's camera 'front' has no counterpart"):
        describe(job, data.load([one], window=10))
    shuffled = student_data.write(tmp_path / "shuffled", action_names=LEROBOT_ORDER)
    with refuses(ErrorCode.MISMATCH, "other numbers of action, or in another order"):
        describe(job, data.load([shuffled], window=10))


def test_unpickling_as_it_is_needs_the_flag(released):
    robocasa.read_payload(released, trust_pickle=True)
    assert (released.parent / "ran").exists()


def test_files_of_another_kind_are_refused(tmp_path):
    (tmp_path / "no.ckpt").write_bytes(b"nothing")
    with refuses(ErrorCode.UNREADABLE_FILE, "cannot be read safely"):
        robocasa.read(tmp_path / "no.ckpt", DiffusionSettings(), ("left",))
    torch.save({"state_dicts": {}}, tmp_path / "empty.ckpt")
    with refuses(ErrorCode.UNREADABLE_FILE, "has no state_dicts with a model"):
        robocasa.read(tmp_path / "empty.ckpt", DiffusionSettings(), ("left",))
    with refuses(ErrorCode.NOT_FOUND):
        robocasa.read(tmp_path / "missing.ckpt", DiffusionSettings(), ("left",))


def test_a_tensor_holds_no_more_numbers_than_the_file():
    with pytest.raises(ValueError, match="too many numbers"):
        robocasa._rebuild_tensor(torch.zeros(4), 0, (10**12,), (0,))


def test_a_pickle_takes_no_memory_for_what_it_claims_to_remember():
    claimed = b"\x80\x02]r" + (2**31 - 1).to_bytes(4, "little") + b"."
    assert robocasa.SafeReader(io.BytesIO(claimed)).load() == []
