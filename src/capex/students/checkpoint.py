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

from capex.errors import CapexError
from capex.run.files import TEMPORARY, read_json, whole_folder, write_json
from capex.students.spec import PolicySpec
from capex.students.trainer import Trainer

FOLDER = "checkpoints"


def save(
    out: Path, step: int, trainer: Trainer, spec: PolicySpec, extra: Mapping[str, Any]
) -> Path:
    """Write the checkpoint of a step."""
    place = out / FOLDER / f"{step:06d}"
    if place.exists():
        return place
    with whole_folder(place) as folder:
        write_json(folder / "policy.json", spec.as_json())
        _save(folder / "model.safetensors", trainer.weights())
        tensors = {f"state.{k}": t for k, t in enumerate(trainer.state_tensors())}
        tensors["generator.cpu"] = torch.get_rng_state()
        if trainer.device.type == "cuda":
            tensors["generator.cuda"] = torch.cuda.get_rng_state(trainer.device)
        _save(folder / "training.safetensors", tensors)
        write_json(folder / "training.json", {"step": step, **extra})
    return place


def restore(place: Path, trainer: Trainer) -> None:
    """Put a trainer where the checkpoint was; weights, moments, counters and random generators
    continue as if nothing had happened.
    """
    held = load_tensors(place / "training.safetensors")
    tensors = trainer.state_tensors()
    for k, tensor in enumerate(tensors):
        found = held.get(f"state.{k}")
        if found is None or found.shape != tensor.shape:
            raise CapexError(
                f"{place} does not belong to this training: its state differs; choose another --out"
            )
        tensor.copy_(found)
    torch.set_rng_state(held["generator.cpu"])
    if trainer.device.type == "cuda" and "generator.cuda" in held:
        torch.cuda.set_rng_state(held["generator.cuda"], trainer.device)


def require_same(place: Path, spec: PolicySpec) -> None:
    """Refuse to continue on other data: what the checkpoint was trained on must be what is there
    now.
    """
    held, now = read_spec(place).as_json(), json.loads(json.dumps(spec.as_json()))
    same = all(
        held[k] == now[k]
        for k in (
            "cameras",
            "image_size",
            "state_names",
            "action_names",
            "normalizer",
            "instructions",
        )
    )
    if not same or any(
        held["training"].get(k) != now["training"].get(k) for k in ("episodes", "frames", "starts")
    ):
        raise CapexError(
            f"the dataset has changed since {place} was written; train into another --out"
        )


def steps(out: Path) -> list[int]:
    """Steps with a whole checkpoint, in order."""
    folder = out / FOLDER
    return (
        sorted(int(p.name) for p in folder.iterdir() if re.fullmatch(r"\d{6,}", p.name))
        if folder.is_dir()
        else []
    )


def path_of(out: Path, step: int) -> Path:
    """The folder of a step's checkpoint."""
    return out / FOLDER / f"{step:06d}"


def prune(out: Path, keep: Sequence[int]) -> None:
    """Remove what newer checkpoints replace: whole folders, or only the training state of those in
    `keep`. Also half-written ones.
    """
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
    if (path / "policy.json").is_file() and (path / "model.safetensors").is_file():
        return path
    held = steps(path)
    if not held:
        raise CapexError(
            f"{path} holds no policy; give the folder that `capex train --out` named, or one of its"
            " checkpoints"
        )
    return path_of(path, held[-1])


def load_policy_files(path: Path) -> tuple[PolicySpec, dict[str, Tensor]]:
    """The spec and the deployed weights of a checkpoint."""
    place = find(path)
    return read_spec(place), load_tensors(place / "model.safetensors")


def load_network(path: Path) -> tuple[PolicySpec, nn.Module]:
    """The deployed network of a checkpoint, with its spec."""
    spec, weights = load_policy_files(path)
    require_fit(str(path), spec, weights)
    net = spec.network()
    net.load_state_dict(weights)
    return spec, net


def require_fit(where: str, spec: PolicySpec, weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are not those of the network that the spec describes, before any memory
    is taken for it.
    """
    try:
        with torch.device("meta"):
            wanted = {name: tuple(t.shape) for name, t in spec.network().state_dict().items()}
    except RuntimeError as error:
        raise CapexError(
            f"{where}: no network of this description can be built ({error}); use another"
            " checkpoint"
        ) from None
    given = {name: tuple(t.shape) for name, t in weights.items()}
    for name in sorted({*wanted, *given}):
        if given.get(name) != wanted.get(name):
            there, right = (
                "x".join(map(str, s[name])) or "a number" if name in s else "missing"
                for s in (given, wanted)
            )
            raise CapexError(
                f"{where}: the weights do not fit the network; '{name}' is {there} in the file and"
                f" {right} in the network"
            )
    broken = [name for name, t in weights.items() if not bool(t.float().isfinite().all())]
    if broken:
        raise CapexError(
            f"{where} holds weights that are not finite ('{broken[0]}'); use another checkpoint"
        )


def read_spec(place: Path) -> PolicySpec:
    """What the policy of a checkpoint is; a damaged description is refused with a sentence."""
    path = place / "policy.json"
    try:
        return PolicySpec.from_json(read_json(path))
    except CapexError as error:
        raise CapexError(f"{place} holds no policy that can be used: {error}") from None
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        OSError,
    ) as error:
        raise CapexError(
            f"{path} describes no policy ({type(error).__name__}: {error}); use another checkpoint"
        ) from None


def _save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file; a damaged one is refused with a sentence."""
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise CapexError(
            f"{path} cannot be read as .safetensors ({error}); use another file"
        ) from None
