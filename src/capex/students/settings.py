"""Every setting of a student: the paper's values as defaults, and where it prints none those of the
recipes it names (LeRobot's ACT, RoboCasa365's Diffusion Policy). One flat frozen dataclass per
policy; a study or `--set` changes any.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from capex.errors import CapexError, ErrorCode, UnknownName
from capex.setting import Setting, declared

SEED_MAX = 2**63 - 1  # what torch's generators take


def cropped(size: tuple[int, int], crop: int) -> tuple[int, int]:
    """Width and height that a crop leaves of an image: `crop` of the shorter side, the same share
    of the longer; all of it where `crop` is 0 or no smaller.
    """
    shorter = min(size)
    if not 0 < crop < shorter:
        return size
    width, height = (round(side * crop / shorter) for side in size)
    return width, height


class Architecture(Setting):
    """Decides the shapes or the meaning of the weights; a fine-tuned policy inherits it."""


Size = Annotated[int, Architecture(1)]
Count = Annotated[int, Architecture(0)]
Whole = Annotated[int, Setting(0)]
Positive = Annotated[int, Setting(1)]
Number = Annotated[float, Setting(0)]
BackboneNorm = Annotated[Literal["auto", "frozen", "group"], Architecture()]
Schedule = Annotated[Literal["constant", "cosine"], Setting()]
Precision = Literal["auto", "fp32", "bf16"]
Still = Annotated[Literal["keep", "drop"], Setting()]


@dataclass(frozen=True)
class ActSettings:
    """ACT: ResNet-18, transformer, CVAE; chunks of actions, temporally ensembled."""

    policy: ClassVar[Literal["act"]] = "act"
    chunk: Size = 20  # actions predicted at once
    dim: Size = 512
    heads: Size = 8
    feedforward: Count = 3200
    encoder_layers: Count = 4
    decoder_layers: Count = 1
    vae_layers: Count = 4
    latent: Count = 32
    dropout: Number = 0.1
    kl_weight: Number = 10.0
    ensemble: Number = 0.01  # weight exp(-ensemble * age rank), the oldest prediction weighing most
    width: Size = 64  # channels of the ResNet's first stage
    norm: BackboneNorm = "auto"  # frozen batch norm with given backbone weights, group norm without
    crop: Count = 0  # random crop while training, centre crop afterwards; 0: the whole image
    # Gripper and mode, where they take two values: as numbers like the others, or as classes.
    commands: Annotated[Literal["regress", "classify"], Architecture()] = "regress"
    batch: Positive = 16
    lr: Number = 1e-5
    schedule: Schedule = "constant"
    warmup: Whole = 0
    weight_decay: Number = 1e-4
    beta1: Number = 0.9
    beta2: Number = 0.999
    clip_norm: Number = 10.0
    ema_power: Number = 0.0  # 0: no average; the last weights are what is evaluated
    # auto: bf16 matrix work on a CUDA GPU, fp32 elsewhere; bf16 on a CPU is refused
    precision: Annotated[Precision, Setting()] = "auto"
    still: Still = "keep"  # drop: leave out frames where nothing moves and nothing new is commanded
    agree: Whole = 0  # so many demonstrations whose motions are most alike; 0: all of them

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
    """Diffusion Policy as RoboCasa365's: FiLM ResNet-18 per camera, transformer denoiser, DDPM."""

    policy: ClassVar[Literal["diffusion"]] = "diffusion"
    horizon: Size = 10  # actions predicted at once; the first belongs to the older observation
    execute: Positive = 8
    observations: Count = 2
    dim: Size = 512
    heads: Size = 8
    layers: Count = 12
    condition_layers: Count = 4
    dropout: Number = 0.3
    keypoints: Count = 32
    features: Count = 64  # per camera
    width: Size = 64
    language: Count = 768  # size of an instruction's embedding: CLIP ViT-L/14's
    # Without given embeddings, what is learned: one for each instruction, or an encoder of words.
    text: Annotated[Literal["table", "words"], Architecture()] = "table"
    diffusion_steps: Count = 100
    crop: Count = 224
    batch: Positive = 16
    lr: Number = 1e-4
    schedule: Schedule = "cosine"
    warmup: Whole = 500
    weight_decay: Number = 1e-3  # of the denoiser's matrices
    encoder_weight_decay: Number = 1e-6
    beta1: Number = 0.9
    beta2: Number = 0.95
    clip_norm: Number = 0.0
    ema_power: Number = 0.75
    ema_max: Number = 0.9999
    precision: Annotated[Precision, Setting()] = "auto"
    still: Still = "keep"
    agree: Whole = 0

    @property
    def observation_steps(self) -> tuple[int, ...]:
        """Which frames are looked at, relative to the present."""
        return tuple(range(1 - self.observations, 1))

    @property
    def action_steps(self) -> tuple[int, ...]:
        """The same for actions: the horizon begins at the oldest observation."""
        return tuple(range(1 - self.observations, self.horizon + 1 - self.observations))

    @property
    def last_step(self) -> int:
        """The same for windows of which at most execute - 1 actions repeat the last one."""
        return max(1, self.horizon - self.observations + 1 - (self.execute - 1))


Settings = ActSettings | DiffusionSettings
POLICIES: dict[str, type[ActSettings] | type[DiffusionSettings]] = {
    kind.policy: kind for kind in (ActSettings, DiffusionSettings)
}


def make_settings(
    policy: str, changes: Mapping[str, Any], *, spelled: str = "setting "
) -> Settings:
    """The paper's settings with changes by name; unknown names and wrong values are refused.
    `spelled`: what stands before a name where the user wrote it, "--set " or a table of a file.
    """
    if policy not in POLICIES:
        raise UnknownName("policy", policy, POLICIES)
    known = declared(POLICIES[policy])
    values: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            flag = "--set" if spelled == "--set " else ""
            raise UnknownName("setting", name, known, where=f" of policy '{policy}'", flag=flag)
        values[name] = known[name].checked(f"{spelled}{name}", value, from_text=True)
    settings = POLICIES[policy](**values)
    _refuse_contradictions(settings, spelled)
    return settings


def architecture_names(settings: Settings) -> set[str]:
    """The settings that a fine-tuned policy inherits."""
    known = declared(type(settings))
    return {name for name, setting in known.items() if isinstance(setting, Architecture)}


def parse_changes(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs from the command line."""
    changes: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise CapexError(
                f"--set '{pair}' is no setting; write NAME=VALUE, for example --set lr=1e-4",
                code=ErrorCode.BAD_SETTING,
            )
        changes[name.strip()] = value.strip()
    return changes


def require_name(what: str, name: str) -> None:
    """Refuse a name that could not be part of a folder's."""
    if not re.fullmatch(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*", name):
        raise CapexError(
            f"{what} is '{name}'; letters and digits are right, joined by single points, dashes or"
            " underscores",
            code=ErrorCode.BAD_SETTING,
        )


def _refuse_contradictions(settings: Settings, spelled: str) -> None:
    if settings.lr == 0:
        raise CapexError(
            f"{spelled}lr is {settings.lr}; it must be above 0", code=ErrorCode.BAD_SETTING
        )
    if settings.dim % settings.heads:
        sizes = f"dim is {settings.dim} and heads {settings.heads}"
        raise CapexError(
            f"{spelled}{sizes}; dim must be a multiple of heads",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    if settings.width % 16:
        raise CapexError(
            f"{spelled}width is {settings.width}; it must be a multiple of 16, the size of a"
            " normalisation group",
            code=ErrorCode.BAD_SETTING,
        )
    if isinstance(settings, DiffusionSettings):
        most = settings.horizon - settings.observations + 1
        if settings.execute > most:
            raise CapexError(
                f"{spelled}execute is {settings.execute}; with horizon {settings.horizon} at most"
                f" {most} steps can be executed",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
