"""What a trained policy is: everything but its weights. Written as policy.json beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from capex.errors import CapexError
from capex.students.act import ACT
from capex.students.diffusion import Diffusion
from capex.students.normalizer import Normalizer
from capex.students.settings import ActSettings, Settings, make_settings, policy_name

FORMAT = 1


@dataclass(frozen=True)
class PolicySpec:
    """A policy's inputs and outputs, its settings and where it comes from."""

    settings: Settings
    cameras: tuple[str, ...]
    image_size: int  # side of the images it is shown
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    fps: float
    normalizer: Normalizer
    norm: str = "group"  # the backbone's
    instructions: tuple[str, ...] = ()  # those it was trained on
    learned_language: bool = True  # whether the instructions' embeddings are learned or given
    initialisation: str = "random"  # in words, for tables
    training: Mapping[str, Any] = field(default_factory=dict)  # steps, seed, datasets, starts

    @property
    def policy(self) -> str:
        """act or diffusion."""
        return policy_name(self.settings)

    def network(self) -> nn.Module:
        """A freshly initialised network of this shape."""
        state, action = len(self.state_names), len(self.action_names)
        if isinstance(self.settings, ActSettings):
            return ACT(self.settings, state, action, self.norm)
        return Diffusion(
            self.settings,
            len(self.cameras),
            state,
            action,
            len(self.instructions),
            self.learned_language,
        )

    def as_json(self) -> dict[str, Any]:
        """For policy.json."""
        return {
            "format": FORMAT,
            "policy": self.policy,
            "settings": asdict(self.settings),
            "cameras": list(self.cameras),
            "image_size": self.image_size,
            "state_names": list(self.state_names),
            "action_names": list(self.action_names),
            "fps": self.fps,
            "norm": self.norm,
            "instructions": list(self.instructions),
            "learned_language": self.learned_language,
            "initialisation": self.initialisation,
            "training": dict(self.training),
            "normalizer": self.normalizer.as_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PolicySpec:
        """From policy.json; ValueError, KeyError or TypeError where it holds something else."""
        if data.get("format") != FORMAT:
            raise CapexError(
                f"the policy is of format {data.get('format')}; this version reads {FORMAT}"
            )
        spec = cls(
            make_settings(data["policy"], data["settings"]),
            tuple(data["cameras"]),
            int(data["image_size"]),
            tuple(data["state_names"]),
            tuple(data["action_names"]),
            float(data["fps"]),
            Normalizer.from_json(data["normalizer"]),
            data["norm"],
            tuple(data["instructions"]),
            bool(data["learned_language"]),
            data["initialisation"],
            data["training"],
        )
        spec.require_sound()
        return spec

    def require_sound(self) -> None:
        """ValueError where the parts contradict each other."""
        sizes = {"image": 3, "state": len(self.state_names), "action": len(self.action_names)}
        for name, size in sizes.items():
            affine = getattr(self.normalizer, name)
            if affine.scale.shape != (size,) or affine.offset.shape != (size,):
                raise ValueError(
                    f"the normaliser of {name} has {affine.scale.size} numbers; {size} would be"
                    " right"
                )
        if (
            self.norm not in ("frozen", "group")
            or self.image_size < 1
            or not isinstance(self.training, Mapping)
        ):
            raise ValueError(
                "norm, image_size or training is something else than this version writes"
            )
        if not all(
            isinstance(text, str)
            for text in (*self.cameras, *self.state_names, *self.action_names, *self.instructions)
        ):
            raise ValueError("a name is no text")
        if not all(
            isinstance(start, (list, tuple)) and len(start) == 4
            for start in self.training.get("starts", ())
        ):
            raise ValueError("a start that it was trained on is not world, task, start and seed")
