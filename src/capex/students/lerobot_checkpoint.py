"""Checkpoints that LeRobot's own trainer wrote on our export, read without LeRobot: what the policy
sees and gives, and which demonstrations it learned from.

    OUT/checkpoints/last/pretrained_model/   config.json  model.safetensors  train_config.json
                                             policy_preprocessor.json  policy_postprocessor.json
                                             and their policy_*_step_*.safetensors

config.json has sizes and cameras but no names of numbers; those, the starts and whose
demonstrations they were come from the dataset's meta/ folder, so that it must be at hand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from capex.errors import CapexError, DamagedFile, ErrorCode
from capex.run.files import read_json
from capex.students.lerobot_reader import ACTION, PICTURES, STATE, read_episodes
from capex.untrusted import FAULTS, opened, read_bytes, require_plain, require_plain_tree, within

PREFIX = "lerobot:"
WEIGHTS = "model.safetensors"
PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")
NEEDED = ("config.json", WEIGHTS, *PROCESSORS)


@dataclass(frozen=True)
class LeRobotSpec:
    """What a policy of LeRobot's takes and gives, and where it comes from."""

    kind: str  # act, diffusion or another of LeRobot's
    cameras: tuple[str, ...]
    image_size: tuple[int, int]  # width and height of the images it is shown
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    initialisation: str = "random"
    training: Mapping[str, Any] = field(default_factory=dict)  # steps, seed, datasets, starts

    @property
    def policy(self) -> str:
        """As records and tables name it."""
        return f"lerobot {self.kind}"

    @property
    def looks(self) -> int:
        """One: LeRobot's process is shown every observation, and remembers those before."""
        return 1


def named(checkpoint: Path) -> Path | None:
    """The FOLDER of lerobot:FOLDER; None where the name is none of LeRobot's."""
    text = str(checkpoint)
    return Path(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else None


def find(path: Path) -> Path:
    """The checkpoint that a user's path names: itself, or the last one of a training folder."""
    steps = path / "checkpoints"
    numbered = sorted((p for p in steps.glob("*") if p.name.isdigit()), key=lambda p: int(p.name))
    folders = (path, *(p / "pretrained_model" for p in (path, steps / "last", *numbered[-1:])))
    for folder in folders:
        if not folder.resolve().is_relative_to(path.resolve()):
            raise DamagedFile(folder, "it leads outside the folder that was named")
        if any((folder / name).is_file() for name in NEEDED):
            lacking = [name for name in NEEDED if not (folder / name).is_file()]
            if lacking:
                raise CapexError(
                    f"{folder} has no {lacking[0]}; give a checkpoint as lerobot-train of LeRobot"
                    " 0.4 or later writes it, such as"
                    " lerobot:OUT/checkpoints/last/pretrained_model",
                    code=ErrorCode.WRONG_CONTENT,
                )
            return folder
    raise CapexError(
        f"{path} holds no checkpoint of LeRobot's; give the folder that `lerobot-train"
        " --output_dir` named, or its checkpoints/last/pretrained_model",
        code=ErrorCode.WRONG_CONTENT,
    )


def read_spec(folder: Path, dataset: Path | None = None, version: str = "") -> LeRobotSpec:
    """What the policy of a checkpoint is; what is damaged, unsafe or unknown to us is refused."""
    require_plain(folder)
    _require_whole(folder / WEIGHTS)
    try:
        return _read(folder, dataset, version)
    except FAULTS as error:
        raise CapexError(
            f"{folder} describes no policy that can be used ({type(error).__name__}: {error}); use"
            " another checkpoint",
            code=ErrorCode.WRONG_CONTENT,
        ) from None


def _read(folder: Path, dataset: Path | None, version: str) -> LeRobotSpec:
    config = read_json(folder / "config.json")
    trained = _optional(folder / "train_config.json")
    if config.get("use_peft"):
        raise CapexError(
            f"{folder} holds an adapter (PEFT); merge it into its policy first",
            code=ErrorCode.UNSUPPORTED,
        )
    renamed = {new: old for old, new in _processors(folder).items()}
    inputs: dict[str, Any] = config["input_features"]
    inputs = {renamed.get(name, name): feature for name, feature in inputs.items()}
    root = dataset or _named_root(folder, trained)
    features = _features(folder, root, given=dataset is not None)
    pictures = [name for name in inputs if name.startswith(PICTURES)]
    foreign = [name for name in inputs if name not in pictures and name != STATE]
    if foreign:
        raise CapexError(
            f"{folder} reads '{foreign[0]}', which no export of ours has", code=ErrorCode.MISMATCH
        )
    expected = {ACTION: config["output_features"][ACTION], **inputs}
    for name, feature in expected.items():
        _require_same(root, name, features.get(name), feature["shape"])
    sizes = {(int(inputs[name]["shape"][2]), int(inputs[name]["shape"][1])) for name in pictures}
    if len(sizes) != 1:
        raise CapexError(
            f"{folder} sees pictures of {len(sizes)} sizes; rollouts show one size to all cameras:"
            " export with --size W H",
            code=ErrorCode.MISMATCH,
        )
    backbone = config.get("pretrained_backbone_weights")
    return LeRobotSpec(
        kind=str(config["type"]),
        cameras=tuple(name.removeprefix(PICTURES) for name in pictures),
        image_size=sizes.pop(),
        state_names=tuple(features[STATE]["names"]) if STATE in inputs else (),
        action_names=tuple(features[ACTION]["names"]),
        initialisation=f"backbone {backbone}" if backbone else "random",
        training={**_training(folder, root, trained), "lerobot": version},
    )


def _named_root(folder: Path, trained: Mapping[str, Any]) -> Path:
    """The dataset that train_config.json names, where it lies below the current folder: a
    checkpoint may be anybody's, and names no other place to read from.
    """
    named = str((trained.get("dataset") or {}).get("root") or "")
    try:
        return within(Path(), named) if named else Path()
    except ValueError:
        raise CapexError(
            f"{folder} names the dataset '{named[:200]}', which is not below the current folder; if"
            " you trust it, name it with --dataset",
            code=ErrorCode.NOT_PERMITTED,
        ) from None


def _processors(folder: Path) -> dict[str, str]:
    """How the first processor renames observations. A step that names a class by its path is
    refused: LeRobot would import and call whatever it names.
    """
    renames: dict[str, str] = {}
    for path in (folder / name for name in PROCESSORS):
        for step in read_json(path)["steps"]:
            if "registry_name" not in step:
                raise CapexError(
                    f"{path} has a step '{step.get('class')}', which is none of LeRobot's own; only"
                    " steps with a registry_name are run",
                    code=ErrorCode.NOT_PERMITTED,
                )
            state = step.get("state_file")
            if state is not None:
                plain = isinstance(state, str) and Path(state).name == state
                if not plain or not (folder / state).is_file():
                    raise CapexError(
                        f"{folder} has no {state}, which {path.name} names",
                        code=ErrorCode.DAMAGED_FILE,
                    )
                _require_whole(folder / state)
            if path.name == PROCESSORS[0]:
                renames |= (step.get("config") or {}).get("rename_map") or {}
    return renames


def _features(folder: Path, root: Path, *, given: bool) -> dict[str, Any]:
    """The features of the dataset that the policy was trained on."""
    if root == Path() or not (root / "meta" / "info.json").is_file():
        place = f"in {root}" if given or root != Path() else "where train_config.json names none"
        raise CapexError(
            f"{folder} was trained on a dataset that is not {place}; name its folder with --dataset"
            " (meta/ is enough): the order of the numbers and the starts are written there",
            code=ErrorCode.MISSING_SETTING,
        )
    require_plain(root)
    require_plain_tree(root / "meta")
    features: dict[str, Any] = read_json(root / "meta" / "info.json")["features"]
    return features


def _require_same(root: Path, name: str, feature: Any, shape: Sequence[int]) -> None:
    """See that a feature of the policy is one of the dataset, names and all."""
    if feature is None:
        raise CapexError(
            f"the policy was trained with '{name}', which {root} does not have; name the dataset it"
            " was trained on with --dataset",
            code=ErrorCode.MISMATCH,
        )
    height_width = name.startswith(PICTURES)
    theirs = list(shape[1:]) if height_width else list(shape)
    ours = list(feature["shape"][:2]) if height_width else [len(feature["names"])]
    if theirs != ours:
        numbers = ("x".join(map(str, size)) for size in (theirs, ours))
        raise CapexError(
            "'{}' is {} in the checkpoint and {} in {}; name the dataset it was trained on with"
            " --dataset".format(name, *numbers, root),
            code=ErrorCode.MISMATCH,
        )


def _training(folder: Path, root: Path, trained: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of the training, for records and refusals."""
    chosen = (trained.get("dataset") or {}).get("episodes")
    episodes = read_episodes(root)
    if chosen is not None:
        episodes = tuple(episodes[int(k)] for k in chosen)
    beside = folder.parent / "training_state"
    state = {} if beside.is_symlink() else _optional(beside / "training_step.json")
    number = folder.resolve().parent.name
    steps = state.get("step", int(number) if number.isdigit() else trained.get("steps", 0))
    return {
        "steps": int(steps),
        "seed": int(trained.get("seed") or 0),
        "datasets": [root.resolve().name],
        "episodes": len(episodes),
        "starts": sorted({(e.world, e.task, e.start, e.seed) for e in episodes}),
        "sources": sorted({e.source for e in episodes}),
        "stand_in": any(e.stand_in for e in episodes),
        "processors": _digest(sorted(folder.glob("policy_*"))),
    }


def _digest(paths: Sequence[Path]) -> str:
    """One hash over files."""
    together = hashlib.sha256()
    for path in paths:
        together.update(read_bytes(path))
    return together.hexdigest()[:16]


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _require_whole(path: Path) -> None:
    """Refuse what is no .safetensors file, or was cut short; the tensors are not read."""
    try:
        opened(path).close()
        with safe_open(path, "np"):
            pass
    except (OSError, SafetensorError, ValueError) as error:
        raise CapexError(
            f"{path} cannot be read as .safetensors ({error}); use another checkpoint",
            code=ErrorCode.UNREADABLE_FILE,
        ) from None
