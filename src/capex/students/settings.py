"""Every setting of a student: the paper's values as defaults, and where it prints none those of the
recipes it names (LeRobot's ACT, RoboCasa365's Diffusion Policy). One flat frozen dataclass per
policy; a study or `--set` changes any.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from capex.errors import CapexError, UnknownName

BackboneNorm = Literal["auto", "frozen", "group"]
Schedule = Literal["constant", "cosine"]
Precision = Literal["auto", "fp32", "bf16"]
Still = Literal["keep", "drop"]
SEED_MAX = 2**63 - 1  # what torch's generators take


@dataclass(frozen=True)
class ActSettings:
    """ACT: ResNet-18, transformer, CVAE; a chunk of actions from one observation, temporally
    ensembled.
    """

    chunk: int = 20  # actions predicted at once
    dim: int = 512
    heads: int = 8
    feedforward: int = 3200
    encoder_layers: int = 4
    decoder_layers: int = 1
    vae_layers: int = 4
    latent: int = 32
    dropout: float = 0.1
    kl_weight: float = 10.0
    ensemble: float = 0.01  # weight exp(-ensemble * age rank), the oldest prediction weighing most
    width: int = 64  # channels of the ResNet's first stage
    norm: BackboneNorm = "auto"  # frozen batch norm with given backbone weights, group norm without
    crop: int = 0  # random crop while training, centre crop afterwards; 0: the whole image
    batch: int = 16
    lr: float = 1e-5
    schedule: Schedule = "constant"
    warmup: int = 0
    weight_decay: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.999
    clip_norm: float = 10.0
    ema_power: float = 0.0  # 0: no average; the last weights are what is evaluated
    precision: Precision = (
        "auto"  # auto: bf16 matrix work on a CUDA GPU, fp32 elsewhere; bf16 on a CPU is refused
    )
    still: Still = (
        "keep"  # drop: leave out frames in which nothing moves and nothing new is commanded
    )

    @property
    def window(self) -> int:
        """Frames that an episode must have at least."""
        return self.chunk

    @property
    def observation_steps(self) -> tuple[int, ...]:
        """Which frames are looked at, relative to the present."""
        return (0,)

    @property
    def action_steps(self) -> tuple[int, ...]:
        """Which actions are predicted, relative to the present."""
        return tuple(range(self.chunk))

    @property
    def last_step(self) -> int:
        """How many frames before the end of an episode the last training window begins."""
        return 1


@dataclass(frozen=True)
class DiffusionSettings:
    """Diffusion Policy as RoboCasa365 trains it: FiLM-conditioned ResNet-18 per camera, transformer
    denoiser, DDPM.
    """

    horizon: int = 10  # actions predicted at once, the first one belonging to the older observation
    execute: int = 8
    observations: int = 2
    dim: int = 512
    heads: int = 8
    layers: int = 12
    condition_layers: int = 4
    dropout: float = 0.3
    keypoints: int = 32
    features: int = 64  # per camera
    width: int = 64
    language: int = 768  # size of an instruction's embedding: CLIP ViT-L/14's
    diffusion_steps: int = 100
    crop: int = 224
    batch: int = 16
    lr: float = 1e-4
    schedule: Schedule = "cosine"
    warmup: int = 500
    weight_decay: float = 1e-3  # of the denoiser's matrices
    encoder_weight_decay: float = 1e-6
    beta1: float = 0.9
    beta2: float = 0.95
    clip_norm: float = 0.0
    ema_power: float = 0.75
    ema_max: float = 0.9999
    precision: Precision = "auto"
    still: Still = "keep"

    @property
    def window(self) -> int:
        """Frames that an episode must have at least."""
        return self.horizon

    @property
    def observation_steps(self) -> tuple[int, ...]:
        """Which frames are looked at, relative to the present."""
        return tuple(range(1 - self.observations, 1))

    @property
    def action_steps(self) -> tuple[int, ...]:
        """Which actions are predicted, relative to the present: the horizon begins at the oldest
        observation.
        """
        return tuple(range(1 - self.observations, self.horizon + 1 - self.observations))

    @property
    def last_step(self) -> int:
        """How many frames before the end the last window begins: at most execute - 1 actions repeat
        the last one.
        """
        return max(1, self.horizon - self.observations + 1 - (self.execute - 1))


# What decides the shapes and the meaning of the weights: a fine-tuned policy has them from the one
# it begins from.
SHAPE = (
    *(
        "chunk",
        "dim",
        "heads",
        "feedforward",
        "encoder_layers",
        "decoder_layers",
        "vae_layers",
        "latent",
        "width",
        "norm",
        "crop",
    ),
    *(
        "horizon",
        "observations",
        "layers",
        "condition_layers",
        "keypoints",
        "features",
        "language",
        "diffusion_steps",
    ),
)
Settings = ActSettings | DiffusionSettings
POLICIES: dict[str, type[ActSettings] | type[DiffusionSettings]] = {
    "act": ActSettings,
    "diffusion": DiffusionSettings,
}


def policy_name(settings: Settings) -> str:
    """What `--policy` calls these settings."""
    return next(name for name, kind in POLICIES.items() if isinstance(settings, kind))


def make_settings(policy: str, changes: Mapping[str, Any]) -> Settings:
    """The paper's settings of a policy with changes by name; unknown names and wrong values are
    refused with a sentence.
    """
    if policy not in POLICIES:
        raise UnknownName("policy", policy, POLICIES)
    kind = POLICIES[policy]
    hints = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)]
    values: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in names:
            raise UnknownName("setting", name, names, where=f" of policy '{policy}'")
        values[name] = _converted(name, value, hints[name])
    settings = kind(**values)
    _check(settings)
    return settings


def parse_changes(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs from the command line."""
    changes: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CapexError(
                f"--set '{pair}' is no setting; write NAME=VALUE, for example --set lr=1e-4"
            )
        changes[name.strip()] = value.strip()
    return changes


def require_name(what: str, name: str) -> None:
    """Refuse a name that could not be part of a folder's."""
    if not re.fullmatch(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*", name):
        raise CapexError(
            f"{what} is '{name}'; letters and digits are right, joined by single points, dashes or"
            " underscores"
        )


def _converted(name: str, value: Any, hint: Any) -> Any:
    if typing.get_origin(hint) in (Literal, types.UnionType):
        allowed = typing.get_args(hint)
        if value not in allowed:
            raise CapexError(f"setting {name} is '{value}'; valid: {', '.join(map(str, allowed))}")
        return value
    try:
        converted = hint(value)
    except (TypeError, ValueError):
        converted = None
    if converted is None or isinstance(value, bool) or (hint is int and converted != float(value)):
        raise CapexError(
            f"setting {name} is '{value}'; it must be"
            f" {'a whole number' if hint is int else 'a number'}"
        )
    return converted


def _check(settings: Settings) -> None:
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if not isinstance(value, str) and (value != value or value < 0):
            raise CapexError(f"setting {field.name} is {value}; it must not be negative")
    for name in (
        "batch",
        "dim",
        "heads",
        "width",
        "lr",
        *(("chunk",) if isinstance(settings, ActSettings) else ("horizon", "execute")),
    ):
        if getattr(settings, name) <= 0:
            raise CapexError(f"setting {name} is {getattr(settings, name)}; it must be above 0")
    if settings.dim % settings.heads:
        raise CapexError(
            f"setting dim is {settings.dim} and heads {settings.heads}; dim must be a multiple of"
            " heads"
        )
    if settings.width % 16:
        raise CapexError(
            f"setting width is {settings.width}; it must be a multiple of 16, the size of a"
            " normalisation group"
        )
    if (
        isinstance(settings, DiffusionSettings)
        and settings.execute > settings.horizon - settings.observations + 1
    ):
        most = settings.horizon - settings.observations + 1
        raise CapexError(
            f"setting execute is {settings.execute}; with horizon {settings.horizon} at most {most}"
            " steps can be executed"
        )
