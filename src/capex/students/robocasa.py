"""RoboCasa365's released Diffusion Policy checkpoint, read without running anything in it.

The file is a torch archive whose pickle holds {"cfg": .., "state_dicts": {"model", "ema_model",
"optimizer"}, "pickles": ..}, written with dill: unpickling it as it is would import and run
whatever it names. `read` walks the pickle with a reader that builds tensors and plain containers
and puts an inert stand-in wherever any other class or function is named. What is used: the moving
average's weights, the normaliser among them, and the order of the observations from the
configuration.

    obs_encoder.obs_nets.CAMERA_image:
        backbone._base_block / _conv_blocks.K / _film_layers.K    ResNet-18 with FiLM, group norm
        pool.nets, .nets.2                                        keypoints, linear
    model.*                                                       the denoiser, names as ours
    normalizer.params_dict.KEY.scale / .offset                    per observation and action
"""

from __future__ import annotations

import io
import itertools
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capex.errors import CapexError, ErrorCode
from capex.students.normalizer import SIGNED, Affine, Floats, Normalizer
from capex.students.resnet import is_state_dict
from capex.students.settings import DiffusionSettings
from capex.untrusted import FAULTS

CAMERAS = {
    "left": "robot0_agentview_left",
    "right": "robot0_agentview_right",
    "wrist": "robot0_eye_in_hand",
}
# Its observations of the robot, and our names of their numbers.
STATE = {
    "robot0_base_to_eef_pos": ("eef_x", "eef_y", "eef_z"),
    "robot0_base_to_eef_quat": ("eef_qx", "eef_qy", "eef_qz", "eef_qw"),
    "robot0_gripper_qpos": ("finger_left", "finger_right"),
}
STATE_NAMES = tuple(itertools.chain(*STATE.values()))
# In the environment's order, which is not that of RoboCasa's LeRobot datasets.
ACTION_NAMES = (
    *("eef_dx", "eef_dy", "eef_dz", "eef_rx", "eef_ry", "eef_rz", "gripper"),
    *("base_vx", "base_vy", "base_wz", "torso", "mode"),
)
BUFFERS = ("_dummy_variable", ".mask", ".memory_mask")  # no weights of ours


NUMBERS_MOST = 2**26  # of one tensor; the largest has a tenth of that


class Inert:
    """Replaces any class or function that a pickle names: keeps its state and does nothing."""

    def __init__(self, *args: Any, **kwargs: Any):
        self.state: Any = args

    def __call__(self, *args: Any, **kwargs: Any) -> Inert:
        return Inert(*args)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Dropped."""

    def append(self, value: Any) -> None:
        """Dropped."""

    def extend(self, values: Any) -> None:
        """Dropped."""

    def __hash__(self) -> int:
        return id(self)


class SafeReader(pickle._Unpickler):
    """Builds tensors and plain containers only; every other name in the pickle becomes Inert.

    Python's own reader: that in C takes memory for as many remembered objects as a file claims.
    """

    def __init__(self, source: io.BytesIO, archive: zipfile.ZipFile | None = None, root: str = ""):
        super().__init__(source)
        self._archive, self._root = archive, root
        self._storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Never imports what the file names."""
        return PLAIN.get((module, name), Inert)

    def persistent_load(self, pid: Any) -> Any:
        """A storage: ("storage", type, key, device, number of elements)."""
        _, dtype, key, _, _ = pid
        if self._archive is None or not isinstance(dtype, torch.dtype):
            raise CapexError(
                "the checkpoint holds tensors of an unknown type", code=ErrorCode.UNREADABLE_FILE
            )
        if key not in self._storages:
            raw = bytearray(self._archive.read(f"{self._root}/data/{key}"))
            empty = torch.empty(0, dtype=dtype)
            self._storages[key] = torch.frombuffer(raw, dtype=dtype) if raw else empty
        return self._storages[key]


def _rebuild_tensor(
    storage: Tensor, offset: int, size: Sequence[int], stride: Sequence[int], *rest: Any
) -> Tensor:
    if math.prod(size) > NUMBERS_MOST:  # a stride of 0 repeats a number without end
        raise ValueError(f"a tensor of the shape {tuple(size)} has too many numbers")
    return storage.as_strided(tuple(size), tuple(stride), offset)


# What a pickle may name, by module and name.
PLAIN: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): lambda data, *rest: data,
    ("torch", "Size"): tuple,
    ("torch", "FloatStorage"): torch.float32,
    ("torch", "DoubleStorage"): torch.float64,
    ("torch", "HalfStorage"): torch.float16,
    ("torch", "BFloat16Storage"): torch.bfloat16,
    ("torch", "LongStorage"): torch.int64,
    ("torch", "IntStorage"): torch.int32,
    ("torch", "ByteStorage"): torch.uint8,
    ("torch", "BoolStorage"): torch.bool,
}


def read_payload(path: Path, *, trust_pickle: bool = False) -> dict[str, Any]:
    """The payload of a torch archive; with `trust_pickle` unpickled as it is, code and all."""
    if not path.is_file():
        raise CapexError(f"there is no checkpoint {path}", code=ErrorCode.NOT_FOUND)
    if trust_pickle:
        try:
            payload = torch.load(path, map_location="cpu", weights_only=False)
        except Exception as error:
            # A foreign file may fail in many ways; all of them mean the same to the user.
            kind, why = type(error).__name__, str(error).partition("\n")[0]
            raise CapexError(
                f"{path} cannot be unpickled ({kind}: {why})", code=ErrorCode.UNREADABLE_FILE
            ) from None
        return payload if isinstance(payload, dict) else {}
    try:
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise CapexError(
                    f"{path} is no torch archive: those are not compressed",
                    code=ErrorCode.UNREADABLE_FILE,
                )
            name = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
            if name is None:
                raise CapexError(
                    f"{path} is no torch archive: it holds no data.pkl",
                    code=ErrorCode.UNREADABLE_FILE,
                )
            source, root = io.BytesIO(archive.read(name)), name.removesuffix("/data.pkl")
            payload = SafeReader(source, archive, root).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, *FAULTS) as error:
        raise CapexError(
            f"{path} cannot be read safely ({type(error).__name__}: {error}); for a file you made"
            " yourself, --trust-pickle",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
    if not isinstance(payload, dict):
        raise CapexError(
            f"{path} holds no payload with state_dicts", code=ErrorCode.UNREADABLE_FILE
        )
    return payload


def read(
    path: Path, settings: DiffusionSettings, cameras: Sequence[str], *, trust_pickle: bool = False
) -> tuple[dict[str, Tensor], Normalizer]:
    """The released policy's weights under our names, and the normaliser it was trained with."""
    payload = read_payload(path, trust_pickle=trust_pickle)
    states = payload.get("state_dicts")
    if not isinstance(states, Mapping) or not ({"ema_model", "model"} & set(states)):
        raise CapexError(
            f"{path} has no state_dicts with a model; RoboCasa365's checkpoint has ema_model and"
            " model",
            code=ErrorCode.UNREADABLE_FILE,
        )
    theirs = states.get("ema_model") or states.get("model")
    if not is_state_dict(theirs):
        raise CapexError(
            f"{path} has a model that is no state dict; names with tensors are expected",
            code=ErrorCode.UNREADABLE_FILE,
        )
    unknown = [c for c in cameras if c not in CAMERAS]
    if unknown:
        raise CapexError(
            f"RoboCasa365's policy sees {', '.join(CAMERAS)}; the dataset's camera '{unknown[0]}'"
            " has no counterpart there",
            code=ErrorCode.MISMATCH,
        )
    try:
        weights = {
            name: tensor
            for name, tensor in theirs.items()
            if name.startswith("model.") and not name.endswith(BUFFERS)
        }
        for k, camera in enumerate(cameras):
            encoder = f"obs_encoder.obs_nets.{CAMERAS[camera]}_image"
            weights |= _camera(theirs, encoder, f"cameras.{k}", path)
        weights["model.cond_obs_emb.weight"] = _reordered(
            theirs["model.cond_obs_emb.weight"], payload.get("cfg"), cameras, settings
        )
        return {k: v.float().clone() for k, v in weights.items()}, _normalizer(theirs, path)
    except FAULTS as error:
        raise CapexError(
            f"{path} is not laid out as RoboCasa365's checkpoint ({type(error).__name__}: {error})",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None


def _camera(theirs: Mapping[str, Tensor], encoder: str, ours: str, path: Path) -> dict[str, Tensor]:
    """One camera's encoder under our names."""
    if f"{encoder}.backbone._base_block.0.weight" not in theirs:
        raise CapexError(
            f"{path} has no encoder '{encoder}'; is it RoboCasa365's Diffusion Policy?",
            code=ErrorCode.UNREADABLE_FILE,
        )
    prefixes = {
        "backbone._base_block.0.": "backbone.conv1.",
        "backbone._base_block.1.": "backbone.bn1.",
        "pool.nets.": "keypoints.",
        "nets.2.": "linear.",
    }
    for k in range(8):
        prefixes[f"backbone._conv_blocks.{k}."] = f"backbone.layer{k // 2 + 1}.{k % 2}."
        prefixes[f"backbone._film_layers.{k}."] = f"backbone.films.{k}."
    return {
        f"{ours}.{our}{name.removeprefix(f'{encoder}.{their}')}": tensor
        for name, tensor in theirs.items()
        for their, our in prefixes.items()
        if name.startswith(f"{encoder}.{their}")
    }


def _reordered(
    weight: Tensor, cfg: Any, cameras: Sequence[str], settings: DiffusionSettings
) -> Tensor:
    """The condition's input matrix, columns in our order: cameras, state, instruction."""
    sizes = {f"{name}_image": settings.features for name in CAMERAS.values()}
    sizes |= {key: len(names) for key, names in STATE.items()} | {"lang_emb": settings.language}
    order = [k for k in _observation_order(cfg) if k in sizes] or list(sizes)
    at, columns = 0, {}
    for key in order:
        columns[key] = slice(at, at + sizes[key])
        at += sizes[key]
    if at != weight.shape[1]:
        raise CapexError(
            f"the checkpoint's condition has {weight.shape[1]} numbers; {at} were expected"
            f" ({', '.join(order)})",
            code=ErrorCode.UNREADABLE_FILE,
        )
    ours = [*(f"{CAMERAS[c]}_image" for c in cameras), *STATE, "lang_emb"]
    return torch.cat([weight[:, columns[key]] for key in ours], dim=1)


def _observation_order(cfg: Any) -> list[str]:
    """The names in cfg.shape_meta.obs, in their order; empty where there are none."""
    observations = _content(_content(cfg).get("shape_meta")).get("obs")
    return [str(k) for k in _content(observations)]


def _content(node: Any) -> Mapping[str, Any]:
    """The entries of a plain mapping, or of an inert stand-in for a configuration node."""
    if isinstance(node, Inert):
        state = node.state[0] if isinstance(node.state, tuple) and node.state else node.state
        node = state.get("_content", state) if isinstance(state, dict) else {}
    return node if isinstance(node, Mapping) else {}


def _normalizer(theirs: Mapping[str, Tensor], path: Path) -> Normalizer:
    def numbers(key: str, part: str) -> Floats:
        name = f"normalizer.params_dict.{key}.{part}"
        if name not in theirs:
            raise CapexError(
                f"{path} has no {name}; its normaliser is part of the model in RoboCasa365's"
                " checkpoint",
                code=ErrorCode.UNREADABLE_FILE,
            )
        return theirs[name].float().numpy().reshape(-1)

    def affine(*keys: str) -> Affine:
        return Affine(
            *(np.concatenate([numbers(k, part) for k in keys]) for part in ("scale", "offset"))
        )

    return Normalizer(SIGNED, affine(*STATE), affine("action"))
