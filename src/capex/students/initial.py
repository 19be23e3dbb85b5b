"""Where fine-tuning begins: a policy of ours, or RoboCasa365's released Diffusion Policy checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from capex.errors import CapexError
from capex.students import checkpoint, robocasa
from capex.students.data import Demonstrations
from capex.students.normalizer import Normalizer
from capex.students.settings import DiffusionSettings, Settings, policy_name
from capex.students.spec import PolicySpec


@dataclass(frozen=True)
class Beginning:
    """Settings and weights to begin from, and what the new policy takes over besides."""

    settings: Settings
    weights: dict[str, Tensor]
    normalizer: Normalizer | None
    norm: str
    words: str

    def adapt(self, spec: PolicySpec) -> tuple[PolicySpec, dict[str, Tensor]]:
        """The spec of the fine-tuned policy, and the weights with a row for each of its instructions."""
        adapted = replace(spec, settings=self.settings, norm=self.norm, initialisation=self.words)
        if self.normalizer is not None:
            adapted = replace(adapted, normalizer=replace(self.normalizer, statistics=spec.normalizer.statistics))
        fresh = adapted.network().state_dict()
        weights = dict(self.weights)
        if "instructions.weight" in fresh:
            weights["instructions.weight"] = self._rows(fresh["instructions.weight"], weights.get("instructions.weight"))
        wrong = [k for k, v in fresh.items() if k not in weights or weights[k].shape != v.shape]
        if wrong or set(weights) - set(fresh):
            name = wrong[0] if wrong else sorted(set(weights) - set(fresh))[0]
            raise CapexError(
                f"--init does not fit this dataset and these settings: '{name}' differs in shape; use the settings it was made with"
            )
        return adapted, weights

    @staticmethod
    def _rows(fresh: Tensor, held: Tensor | None) -> Tensor:
        """New instructions begin at the mean of the old ones."""
        if held is None:
            return fresh
        return held.mean(dim=0, keepdim=True).expand_as(fresh).clone()


def read(path: Path, settings: Settings, demonstrations: Demonstrations, *, trust_pickle: bool) -> Beginning:
    """Open what --init names."""
    if path.is_dir():
        held, weights = checkpoint.load_policy_files(path)
        if policy_name(held.settings) != policy_name(settings):
            raise CapexError(f"{path} is a policy of kind {held.policy}; --policy {policy_name(settings)} was asked for")
        _same_inputs(path, held, demonstrations)
        kept = held.settings  # sizes are the checkpoint's; how to train is this run's
        training = ("batch", "lr", "schedule", "warmup", "weight_decay", "beta1", "beta2", "clip_norm", "ema_power", "precision", "dropout")
        mixed = replace(kept, **{k: getattr(settings, k) for k in training})
        steps = held.training.get("steps", "?")
        return Beginning(mixed, weights, held.normalizer, held.norm, f"fine-tuned from a policy of ours ({steps} steps)")
    if not isinstance(settings, DiffusionSettings):
        raise CapexError(f"{path} is a file; only Diffusion Policy begins from one (RoboCasa365's checkpoint): add --policy diffusion")
    loaded = robocasa.read(path, settings, demonstrations.cameras, trust_pickle=trust_pickle)
    return Beginning(settings, loaded.weights, loaded.normalizer, "group", f"fine-tuned from {path.name}")


def _same_inputs(path: Path, held: PolicySpec, demonstrations: Demonstrations) -> None:
    for what in ("cameras", "state_names", "action_names"):
        if getattr(held, what) != getattr(demonstrations, what):
            raise CapexError(f"{path} was trained with other {what} ({', '.join(getattr(held, what))}) than the dataset has")
    if held.image_size != demonstrations.size:
        raise CapexError(f"{path} was trained on {held.image_size}x{held.image_size} images and the dataset has {demonstrations.size}")
