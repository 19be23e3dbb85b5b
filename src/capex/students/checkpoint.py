"""Checkpoints: a folder of safetensors and JSON, no pickle. It exists whole or not at all; training
continues from it exactly.

DIR/checkpoints/020000/policy.json   model.safetensors      what is deployed
                       training.json training.safetensors   what continues: weights, optimiser,
                                                            generators
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from capex.errors import CapexError, ErrorCode
from capex.run.files import TEMPORARY, read_json, whole_folder, write_json
from capex.students.spec import PolicySpec
from capex.students.trainer import Trainer
from capex.untrusted import FAULTS, require_plain_tree

FOLDER = "checkpoints"
# What a training must find unchanged in its datasets to be continued.
SAME = ("cameras", "image_size", "state_names", "action_names", "normalizer", "instructions")
SAME_TRAINING = ("episodes", "frames", "starts")


def save(
    out: Path, step: int, trainer: Trainer, spec: PolicySpec, extra: Mapping[str, Any]
) -> Path:
    """Write the checkpoint of a step."""
    if (path := path_of(out, step)).exists():
        return path
    with whole_folder(path) as folder:
        _write_policy(folder, spec, trainer.weights())
        tensors = {f"state.{k}": t for k, t in enumerate(trainer.state_tensors())}
        tensors["generator.cpu"] = torch.get_rng_state()
        if trainer.device.type == "cuda":
            tensors["generator.cuda"] = torch.cuda.get_rng_state(trainer.device)
        _save(folder / "training.safetensors", tensors)
        write_json(folder / "training.json", {"step": step, **extra})
    return path


def write_policy(path: Path, spec: PolicySpec, weights: Mapping[str, Tensor]) -> None:
    """Write what is deployed alone, as a folder that acts and cannot be continued."""
    with whole_folder(path) as folder:
        _write_policy(folder, spec, weights)


def _write_policy(folder: Path, spec: PolicySpec, weights: Mapping[str, Tensor]) -> None:
    write_json(folder / "policy.json", spec.as_json())
    _save(folder / "model.safetensors", weights)


def restore(path: Path, trainer: Trainer) -> None:
    """Set weights, moments, counters and random generators to those of the checkpoint."""
    saved = load_tensors(path / "training.safetensors")
    for k, tensor in enumerate(trainer.state_tensors()):
        value = saved.get(f"state.{k}")
        if value is None or value.shape != tensor.shape:
            raise CapexError(
                f"{path} does not belong to this training: its state differs; choose another --out",
                code=ErrorCode.OTHER_SETTINGS,
            )
        tensor.copy_(value)
    trainer.step = int(trainer.done)
    torch.set_rng_state(saved["generator.cpu"])
    if trainer.device.type == "cuda" and "generator.cuda" in saved:
        torch.cuda.set_rng_state(saved["generator.cuda"], trainer.device)


def require_same(path: Path, spec: PolicySpec) -> None:
    """Refuse to continue on other data than the checkpoint was trained on."""
    old, new = (json.loads(json.dumps(s.as_json())) for s in (read_spec(path), spec))
    changed = [k for k in SAME if old[k] != new[k]]
    changed += [k for k in SAME_TRAINING if old["training"].get(k) != new["training"].get(k)]
    if changed:
        raise CapexError(
            f"the dataset has changed since {path} was written; train into another --out",
            code=ErrorCode.OTHER_SETTINGS,
        )


def steps(out: Path) -> list[int]:
    """Steps with a whole checkpoint, in order."""
    return sorted(int(p.name) for p in (out / FOLDER).glob("*") if re.fullmatch(r"\d{6,}", p.name))


def path_of(out: Path, step: int) -> Path:
    """The folder of a step's checkpoint."""
    return out / FOLDER / f"{step:06d}"


def prune(out: Path, keep: Sequence[int]) -> None:
    """Remove older and half-written checkpoints; of those in `keep`, only the training state."""
    for leftover in (out / FOLDER).glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for step in steps(out)[:-1]:
        if step not in keep:
            shutil.rmtree(path_of(out, step), ignore_errors=True)
        else:
            for name in ("training.safetensors", "training.json"):
                (path_of(out, step) / name).unlink(missing_ok=True)


def find(path: Path) -> Path:
    """The checkpoint that a user's path names: itself, or the last one of a training folder."""
    if path.is_dir():
        require_plain_tree(path)
    if (path / "policy.json").is_file() and (path / "model.safetensors").is_file():
        return path
    written = steps(path)
    if not written:
        raise CapexError(
            f"{path} holds no policy; give the folder that `capex train --out` named, or one of its"
            " checkpoints",
            code=ErrorCode.WRONG_CONTENT,
        )
    return path_of(path, written[-1])


def load_policy_files(path: Path) -> tuple[PolicySpec, dict[str, Tensor]]:
    """The spec and the deployed weights of a checkpoint."""
    path = find(path)
    return read_spec(path), load_tensors(path / "model.safetensors")


def load_network(path: Path) -> tuple[PolicySpec, nn.Module]:
    """The deployed network of a checkpoint, with its spec."""
    spec, weights = load_policy_files(path)
    require_fit(str(path), spec, weights)
    net = spec.network()
    net.load_state_dict(weights)
    return spec, net


def require_fit(where: str, spec: PolicySpec, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that do not fit the spec's network, before any memory is taken for it."""
    try:
        with torch.device("meta"):
            needed = {name: tuple(t.shape) for name, t in spec.network().state_dict().items()}
    except RuntimeError as error:
        raise CapexError(
            f"{where}: no network of this description can be built ({error}); use another"
            " checkpoint",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
    given = {name: tuple(t.shape) for name, t in weights.items()}
    for name in sorted({*needed, *given}):
        if given.get(name) != needed.get(name):
            there, right = (
                "x".join(map(str, s[name])) or "a number" if name in s else "missing"
                for s in (given, needed)
            )
            raise CapexError(
                f"{where}: the weights do not fit the network; '{name}' is {there} in the file and"
                f" {right} in the network",
                code=ErrorCode.UNREADABLE_FILE,
            )
    broken = [name for name, t in weights.items() if not bool(t.float().isfinite().all())]
    if broken:
        raise CapexError(
            f"{where} holds weights that are not finite ('{broken[0]}'); use another checkpoint",
            code=ErrorCode.UNREADABLE_FILE,
        )


def read_spec(folder: Path) -> PolicySpec:
    """What the policy of a checkpoint is; a damaged description is refused with a sentence."""
    path = folder / "policy.json"
    try:
        return PolicySpec.from_json(read_json(path))
    except CapexError as error:
        raise CapexError(
            f"{folder} holds no policy that can be used: {error}", code=ErrorCode.UNREADABLE_FILE
        ) from None
    except FAULTS as error:
        raise CapexError(
            f"{path} describes no policy ({type(error).__name__}: {error}); use another checkpoint",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None


def _save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file; a damaged one is refused with a sentence."""
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise CapexError(
            f"{path} cannot be read as .safetensors ({error}); use another file",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
