"""What a trained policy is: everything but its weights. Written as policy.json beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import nn

from capex.errors import CapexError, ErrorCode
from capex.students.act import ACT, Command
from capex.students.diffusion import Diffusion
from capex.students.normalizer import Normalizer
from capex.students.settings import ActSettings, Settings, make_settings
from capex.students.words import WordEncoder
from capex.untrusted import require_pixels

FORMAT = 1
# Of a checkpoint: a network of unknown origin is bounded before any of it is built.
LAYERS_MOST, SETTING_MOST = 256, 2**20


@dataclass(frozen=True)
class PolicySpec:
    """A policy's inputs and outputs, its settings and where it comes from."""

    settings: Settings
    cameras: tuple[str, ...]
    image_size: tuple[int, int]  # width and height of the images it is shown
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    fps: float
    normalizer: Normalizer
    norm: str = "group"  # the backbone's
    instructions: tuple[str, ...] = ()  # those it was trained on
    learned_language: bool = True  # whether the instructions' embeddings are learned or given
    vocabulary: tuple[str, ...] = ()  # words that an encoder of ours knows
    # Actions that are given as one of two values: column, lower, higher.
    commands: tuple[tuple[int, float, float], ...] = ()
    initialisation: str = "random"  # in words, for tables
    training: Mapping[str, Any] = field(default_factory=dict)  # steps, seed, datasets, starts

    @property
    def policy(self) -> str:
        """act or diffusion."""
        return self.settings.policy

    def instruction_row(self, text: str) -> int:
        """Where its embedding is: unknown instructions share the last row."""
        known = self.instructions
        return known.index(text) if text in known else len(known)

    def network(self) -> nn.Module:
        """A freshly initialised network of this shape."""
        state, action = len(self.state_names), len(self.action_names)
        if isinstance(self.settings, ActSettings):
            affine = self.normalizer.action
            commands = [
                Command(k, *(float(v * affine.scale[k] + affine.offset[k]) for v in values))
                for k, *values in self.commands
            ]
            return ACT(self.settings, state, action, self.norm, commands)
        net = Diffusion(self.settings, len(self.cameras), state, action)
        if self.language == "words":
            net.instructions = WordEncoder(self.instructions, self.vocabulary, self.language_size)
        else:
            net.set_table(len(self.instructions), learned=self.learned_language)
        return net

    @property
    def looks(self) -> int:
        """Of how many observations, up to the present one, it sees the images."""
        return len(self.settings.observation_steps)

    @property
    def language(self) -> str:
        """Where the embeddings of instructions come from: a learned table, our encoder of words, or
        given; empty where no instruction is read.
        """
        if isinstance(self.settings, ActSettings):
            return ""
        return self.settings.text if self.learned_language else "given"

    @property
    def language_size(self) -> int:
        """Numbers of an instruction's embedding."""
        return 0 if isinstance(self.settings, ActSettings) else self.settings.language

    @property
    def size_json(self) -> int | list[int]:
        """The image size as it is written: the side of square images, [width, height] of others."""
        width, height = self.image_size
        return width if width == height else [width, height]

    def as_json(self) -> dict[str, Any]:
        """For policy.json."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "normalizer"}
        return {
            "format": FORMAT,
            "policy": self.policy,
            **values,
            "image_size": self.size_json,
            "settings": asdict(self.settings),
            "normalizer": self.normalizer.as_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PolicySpec:
        """From policy.json; ValueError, KeyError or TypeError where it holds something else."""
        if data.get("format") != FORMAT:
            raise CapexError(
                f"the policy is of format {data.get('format')}; this version reads {FORMAT}",
                code=ErrorCode.WRONG_CONTENT,
            )
        names = ("cameras", "state_names", "action_names", "instructions")
        values: dict[str, Any] = {k: tuple(data[k]) for k in names}
        values |= {k: data[k] for k in ("norm", "initialisation", "training")}
        spec = cls(
            settings=make_settings(data["policy"], data["settings"]),
            image_size=_size(data["image_size"]),
            fps=float(data["fps"]),
            normalizer=Normalizer.from_json(data["normalizer"]),
            learned_language=bool(data["learned_language"]),
            vocabulary=tuple(data.get("vocabulary", ())),
            commands=tuple(
                (int(k), float(low), float(high)) for k, low, high in data.get("commands", ())
            ),
            **values,
        )
        spec.require_sound()
        return spec

    def require_sound(self) -> None:
        """ValueError where the parts contradict each other."""
        sizes = {"image": 3, "state": len(self.state_names), "action": len(self.action_names)}
        for name, size in sizes.items():
            affine = getattr(self.normalizer, name)
            if affine.scale.shape != (size,) or affine.offset.shape != (size,):
                count = f"{affine.scale.size} numbers; {size} would be right"
                raise ValueError(f"the normaliser of {name} has {count}")
        for name, value in asdict(self.settings).items():
            most = LAYERS_MOST if name.endswith("layers") else SETTING_MOST
            if isinstance(value, int) and value > most:
                raise ValueError(f"the setting {name} is {value}; at most {most} is read")
        require_pixels(*self.image_size)
        known_norm = self.norm in ("frozen", "group")
        if not known_norm or min(self.image_size) < 1 or not isinstance(self.training, Mapping):
            raise ValueError(
                "norm, image_size or training is something else than this version writes"
            )
        names = (*self.cameras, *self.state_names, *self.action_names, *self.instructions)
        names = (*names, *self.vocabulary)
        if not all(isinstance(name, str) for name in names):
            raise ValueError("a name is no text")
        starts = self.training.get("starts", ())
        if not all(isinstance(start, (list, tuple)) and len(start) == 4 for start in starts):
            raise ValueError("a start that it was trained on is not world, task, start and seed")


def _size(written: Any) -> tuple[int, int]:
    """Of `PolicySpec.size_json`."""
    width, height = written if isinstance(written, list) else (written, written)
    return int(width), int(height)
