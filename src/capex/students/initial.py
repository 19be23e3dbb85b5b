"""Where fine-tuning begins: a policy of ours, or RoboCasa365's released Diffusion Policy
checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capex.errors import CapexError
from capex.students import checkpoint, robocasa
from capex.students.data import Demonstrations
from capex.students.normalizer import Normalizer
from capex.students.settings import DiffusionSettings, Settings, policy_name, shape_names
from capex.students.spec import PolicySpec


@dataclass(frozen=True)
class Beginning:
    """Settings and weights to begin from, and what the new policy takes over besides."""

    settings: Settings
    weights: dict[str, Tensor]
    normalizer: Normalizer | None
    norm: str
    words: str
    instructions: tuple[str, ...] = ()  # those that its embeddings belong to, in their order
    # Those that it was trained on: no start of theirs is new to the policy.
    starts: tuple[Any, ...] = ()

    def adapt(self, spec: PolicySpec) -> tuple[PolicySpec, dict[str, Tensor]]:
        """The spec of the fine-tuned policy, and the weights with a row for each of its
        instructions.
        """
        starts = sorted({tuple(s) for s in (*spec.training["starts"], *self.starts)})
        training = {**spec.training, "starts": starts}
        adapted = replace(
            spec,
            settings=self.settings,
            norm=self.norm,
            initialisation=self.words,
            training=training,
        )
        if self.normalizer is not None:
            adapted = replace(
                adapted, normalizer=replace(self.normalizer, statistics=spec.normalizer.statistics)
            )
        try:
            adapted.require_sound()
        except ValueError as error:
            raise CapexError(f"--init does not go with this dataset: {error}") from None
        weights = {name: tensor.float() for name, tensor in self.weights.items()}
        if isinstance(adapted.settings, DiffusionSettings):
            weights["instructions.weight"] = self._rows(weights.get("instructions.weight"), adapted)
        checkpoint.require_fit(
            "--init does not go with this dataset and these settings", adapted, weights
        )
        return adapted, weights

    def _rows(self, held: Tensor | None, spec: PolicySpec) -> Tensor:
        """An instruction keeps its embedding; one that is new begins at the mean of the old ones,
        or without any at random.
        """
        assert isinstance(spec.settings, DiffusionSettings)
        shape = (len(spec.instructions) + 1, spec.settings.language)
        if held is None or not self.instructions:
            return 0.02 * torch.randn(
                shape, generator=torch.Generator().manual_seed(int(spec.training["seed"]))
            )
        rows = held[: len(self.instructions)].mean(dim=0, keepdim=True).repeat(shape[0], 1)
        for k, text in enumerate(spec.instructions):
            if text in self.instructions:
                rows[k] = held[self.instructions.index(text)]
        return rows


def read(
    path: Path, settings: Settings, demonstrations: Demonstrations, *, trust_pickle: bool
) -> Beginning:
    """Open what --init names."""
    if path.is_dir():
        held, weights = checkpoint.load_policy_files(path)
        checkpoint.require_fit(str(path), held, weights)
        if policy_name(held.settings) != policy_name(settings):
            raise CapexError(
                f"{path} is a policy of kind {held.policy}; --policy {policy_name(settings)} was"
                " asked for"
            )
        _same_inputs(path, held, demonstrations)
        words = f"fine-tuned from a policy of ours ({held.training.get('steps', '?')} steps)"
        starts = tuple(held.training.get("starts", ()))
        return Beginning(
            _mixed(path, held.settings, settings),
            weights,
            held.normalizer,
            held.norm,
            words,
            held.instructions,
            starts,
        )
    if not path.is_file():
        raise CapexError(
            f"--init {path}: there is no such file or folder; give a policy of `capex train`, or"
            " RoboCasa365's checkpoint"
        )
    if not isinstance(settings, DiffusionSettings):
        raise CapexError(
            f"{path} is a file; only Diffusion Policy begins from one (RoboCasa365's checkpoint):"
            " add --policy diffusion"
        )
    loaded = robocasa.read(path, settings, demonstrations.cameras, trust_pickle=trust_pickle)
    return Beginning(
        settings, loaded.weights, loaded.normalizer, "group", f"fine-tuned from {path.name}"
    )


def _mixed(path: Path, held: Settings, asked: Settings) -> Settings:
    """Sizes are the checkpoint's; how to train is this run's. Another size that was asked for is
    refused.
    """
    shape = [f for f in fields(held) if f.name in shape_names(held)]
    for f in shape:
        mine, theirs = getattr(asked, f.name), getattr(held, f.name)
        if mine not in (theirs, f.default):
            raise CapexError(
                f"setting {f.name} is {mine} and {path} has {theirs}; a policy that begins from it"
                " keeps that: leave it out"
            )
    mixed: Settings = replace(asked, **{f.name: getattr(held, f.name) for f in shape})
    return mixed


def _same_inputs(path: Path, held: PolicySpec, demonstrations: Demonstrations) -> None:
    for what in ("cameras", "state_names", "action_names"):
        if getattr(held, what) != getattr(demonstrations, what):
            raise CapexError(
                f"{path} was trained with other {what} ({', '.join(getattr(held, what))}) than the"
                " dataset has"
            )
    if held.image_size != demonstrations.size:
        raise CapexError(
            f"{path} was trained on {held.image_size}x{held.image_size} images and the dataset has"
            f" {demonstrations.size}"
        )
