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
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capex.errors import CapexError
from capex.students.normalizer import Affine, Normalizer
from capex.students.settings import DiffusionSettings

CAMERAS = {
    "left": "robot0_agentview_left",
    "right": "robot0_agentview_right",
    "wrist": "robot0_eye_in_hand",
}
STATE = ("robot0_base_to_eef_pos", "robot0_base_to_eef_quat", "robot0_gripper_qpos")
# What reading a damaged or foreign file may raise.
FAULTS = (
    KeyError,
    EOFError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
    RuntimeError,
    OSError,
)
STORAGES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}


@dataclass(frozen=True)
class Loaded:
    """Weights under our names, and the normaliser they were trained with."""

    weights: dict[str, Tensor]
    normalizer: Normalizer


class Inert:
    """Stands where a pickle names a class or function that is not plain data. It keeps its state
    and does nothing.
    """

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


class SafeReader(pickle.Unpickler):
    """Builds tensors and plain containers only; every other name in the pickle becomes an inert
    stand-in.
    """

    def __init__(self, source: io.BytesIO, archive: zipfile.ZipFile | None = None, root: str = ""):
        super().__init__(source)
        self._archive, self._root = archive, root
        self._storages: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Never imports what the file names."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
            return _rebuild_tensor if name == "_rebuild_tensor_v2" else _rebuild_parameter
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if module == "torch" and name == "Size":
            return tuple
        return Inert

    def persistent_load(self, pid: Any) -> Any:
        """A storage: ("storage", type, key, device, number of elements)."""
        _, dtype, key, _, _ = pid
        if self._archive is None or not isinstance(dtype, torch.dtype):
            raise CapexError("the checkpoint holds tensors of an unknown type")
        if key not in self._storages:
            raw = bytearray(self._archive.read(f"{self._root}/data/{key}"))
            self._storages[key] = (
                torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
            )
        return self._storages[key]


def _rebuild_tensor(
    storage: Tensor, offset: int, size: Sequence[int], stride: Sequence[int], *rest: Any
) -> Tensor:
    return storage.as_strided(tuple(size), tuple(stride), offset)


def _rebuild_parameter(data: Tensor, *rest: Any) -> Tensor:
    return data


def read_payload(path: Path, *, trust_pickle: bool = False) -> dict[str, Any]:
    """The payload of a torch archive. With `trust_pickle` it is unpickled as it is, code
    and all.
    """
    if not path.is_file():
        raise CapexError(f"there is no checkpoint {path}")
    if trust_pickle:
        try:
            held = torch.load(path, map_location="cpu", weights_only=False)
        except Exception as error:
            # A foreign file may fail in many ways; all of them mean the same to the user.
            why = str(error).partition("\n")[0]
            raise CapexError(
                f"{path} cannot be unpickled ({type(error).__name__}: {why})"
            ) from None
        return held if isinstance(held, dict) else {}
    try:
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise CapexError(f"{path} is no torch archive: those are not compressed")
            place = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
            if place is None:
                raise CapexError(f"{path} is no torch archive: it holds no data.pkl")
            loaded = SafeReader(
                io.BytesIO(archive.read(place)), archive, place.removesuffix("/data.pkl")
            ).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, *FAULTS) as error:
        raise CapexError(
            f"{path} cannot be read safely ({type(error).__name__}: {error}); for a file you made"
            " yourself, --trust-pickle"
        ) from None
    if not isinstance(loaded, dict):
        raise CapexError(f"{path} holds no payload with state_dicts")
    return loaded


def read(
    path: Path, settings: DiffusionSettings, cameras: Sequence[str], *, trust_pickle: bool = False
) -> Loaded:
    """The released policy's weights for our network, and its normaliser."""
    payload = read_payload(path, trust_pickle=trust_pickle)
    states = payload.get("state_dicts")
    if not isinstance(states, Mapping) or not ({"ema_model", "model"} & set(states)):
        raise CapexError(
            f"{path} has no state_dicts with a model; RoboCasa365's checkpoint has ema_model and"
            " model"
        )
    held = states.get("ema_model") or states.get("model")
    if not isinstance(held, Mapping) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in held.items()
    ):
        raise CapexError(
            f"{path} has a model that is no state dict; names with tensors are expected"
        )
    unknown = [c for c in cameras if c not in CAMERAS]
    if unknown:
        raise CapexError(
            f"RoboCasa365's policy sees {', '.join(CAMERAS)}; the dataset's camera '{unknown[0]}'"
            " has no counterpart there"
        )
    try:
        weights = {name: held[name] for name in held if name.startswith("model.") and _ours(name)}
        for k, camera in enumerate(cameras):
            weights |= _camera(
                held, f"obs_encoder.obs_nets.{CAMERAS[camera]}_image", f"cameras.{k}", path
            )
        weights["model.cond_obs_emb.weight"] = _reordered(
            held["model.cond_obs_emb.weight"], payload.get("cfg"), cameras, settings
        )
        return Loaded({k: v.float().clone() for k, v in weights.items()}, _normalizer(held, path))
    except FAULTS as error:
        raise CapexError(
            f"{path} is not laid out as RoboCasa365's checkpoint ({type(error).__name__}: {error})"
        ) from None


def _ours(name: str) -> bool:
    return not name.endswith(("_dummy_variable", ".mask", ".memory_mask"))


def _camera(held: Mapping[str, Tensor], theirs: str, ours: str, path: Path) -> dict[str, Tensor]:
    """One camera's encoder under our names."""
    found: dict[str, Tensor] = {}
    if f"{theirs}.backbone._base_block.0.weight" not in held:
        raise CapexError(f"{path} has no encoder '{theirs}'; is it RoboCasa365's Diffusion Policy?")
    found[f"{ours}.backbone.conv1.weight"] = held[f"{theirs}.backbone._base_block.0.weight"]
    for part in ("weight", "bias"):
        found[f"{ours}.backbone.bn1.{part}"] = held[f"{theirs}.backbone._base_block.1.{part}"]
        found[f"{ours}.keypoints.{part}"] = held[f"{theirs}.pool.nets.{part}"]
        found[f"{ours}.linear.{part}"] = held[f"{theirs}.nets.2.{part}"]
    for name, tensor in held.items():
        for block in range(8):
            before = f"{theirs}.backbone._conv_blocks.{block}."
            if name.startswith(before):
                found[
                    f"{ours}.backbone.layer{block // 2 + 1}.{block % 2}.{name[len(before) :]}"
                ] = tensor
            before = f"{theirs}.backbone._film_layers.{block}."
            if name.startswith(before):
                found[f"{ours}.backbone.films.{block}.{name[len(before) :]}"] = tensor
    return found


def _reordered(
    weight: Tensor, cfg: Any, cameras: Sequence[str], settings: DiffusionSettings
) -> Tensor:
    """The condition's input matrix with its columns in our order: cameras, position, quaternion,
    gripper, instruction.
    """
    sizes = {f"{name}_image": settings.features for name in CAMERAS.values()}
    sizes |= dict(zip(STATE, (3, 4, 2), strict=True)) | {"lang_emb": settings.language}
    order = [k for k in _observation_order(cfg) if k in sizes] or [
        *(f"{n}_image" for n in CAMERAS.values()),
        *STATE,
        "lang_emb",
    ]
    at, columns = 0, {}
    for key in order:
        columns[key] = slice(at, at + sizes[key])
        at += sizes[key]
    if at != weight.shape[1]:
        raise CapexError(
            f"the checkpoint's condition has {weight.shape[1]} numbers; {at} were expected"
            f" ({', '.join(order)})"
        )
    wanted = [*(f"{CAMERAS[c]}_image" for c in cameras), *STATE, "lang_emb"]
    return torch.cat([weight[:, columns[key]] for key in wanted], dim=1)


def _observation_order(cfg: Any) -> list[str]:
    """The observations' names in the order of the configuration (cfg.shape_meta.obs); empty when it
    cannot be told.
    """
    node = cfg
    for key in ("shape_meta", "obs"):
        node = _content(node).get(key)
    return [str(k) for k in _content(node)]


def _content(node: Any) -> Mapping[str, Any]:
    """The entries of a plain mapping, or of an inert stand-in for a configuration node."""
    if isinstance(node, Inert):
        state = node.state[0] if isinstance(node.state, tuple) and node.state else node.state
        node = state.get("_content", state) if isinstance(state, dict) else {}
    return node if isinstance(node, Mapping) else {}


def _normalizer(held: Mapping[str, Tensor], path: Path) -> Normalizer:
    def affine(keys: Sequence[str]) -> Affine:
        parts = {"scale": [], "offset": []}  # type: dict[str, list[np.ndarray[Any, Any]]]
        for key in keys:
            for part, values in parts.items():
                name = f"normalizer.params_dict.{key}.{part}"
                if name not in held:
                    raise CapexError(
                        f"{path} has no {name}; its normaliser is part of the model in"
                        " RoboCasa365's checkpoint"
                    )
                values.append(held[name].float().numpy().reshape(-1))
        return Affine(*(np.concatenate(parts[k]).astype(np.float32) for k in ("scale", "offset")))

    image = Affine(np.full(3, 2 / 255, dtype=np.float32), np.full(3, -1.0, dtype=np.float32))
    return Normalizer(image, affine(STATE), affine(["action"]))
