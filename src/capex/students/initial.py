"""Where fine-tuning begins: a policy of ours, or RoboCasa365's released Diffusion Policy."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capex.errors import CapexError, ErrorCode
from capex.students import checkpoint, language, robocasa
from capex.students.data import Demonstrations
from capex.students.hearing import vocabulary_of
from capex.students.normalizer import Normalizer
from capex.students.settings import DiffusionSettings, Settings, architecture_names
from capex.students.spec import PolicySpec

LANGUAGE = "instructions."  # of a network's weights
TABLE, WORDS = LANGUAGE + "weight", LANGUAGE + "embedding.weight"


@dataclass(frozen=True)
class Pretrained:
    """Settings and weights to begin from, and what the new policy takes over besides."""

    settings: Settings
    weights: dict[str, Tensor]
    normalizer: Normalizer
    initialisation: str  # in words, for tables
    norm: str = "group"
    instructions: tuple[str, ...] = ()  # those that its embeddings belong to, in their order
    trained_on: int = 0  # so many of them, the first
    learned_language: bool = True
    vocabulary: tuple[str, ...] = ()
    # Those that it was trained on: no start of theirs is new to the policy.
    starts: tuple[Any, ...] = ()

    def adapt(self, spec: PolicySpec) -> tuple[PolicySpec, dict[str, Tensor]]:
        """The fine-tuned policy's spec, and weights with a row for each of its instructions."""
        starts = sorted({tuple(s) for s in (*spec.training["starts"], *self.starts)})
        adapted = replace(
            spec,
            **self._language(spec),
            settings=self.settings,
            norm=self.norm,
            initialisation=self.initialisation,
            training={**spec.training, "starts": starts},
            normalizer=replace(self.normalizer, statistics=spec.normalizer.statistics),
        )
        try:
            adapted.require_sound()
        except ValueError as error:
            raise CapexError(
                f"--init does not go with this dataset: {error}", code=ErrorCode.MISMATCH
            ) from None
        weights = {name: tensor.float() for name, tensor in self.weights.items()}
        if adapted.language == "words":
            weights[WORDS] = self._words(weights, adapted)
        elif isinstance(adapted.settings, DiffusionSettings):
            weights = {k: v for k, v in weights.items() if k == TABLE or not k.startswith(LANGUAGE)}
            shape = (len(adapted.instructions) + 1, adapted.settings.language)
            weights[TABLE] = self._embeddings(shape, weights, adapted)
        where = "--init does not go with this dataset and these settings"
        checkpoint.require_fit(where, adapted, weights)
        return adapted, weights

    def require_language(self, given: Path) -> None:
        """Refuse other embeddings of instructions than those that it was trained with."""
        if self.learned_language:
            raise CapexError(
                "--instructions names embeddings, and the policy of --init learned its own: leave"
                " one of them out",
                code=ErrorCode.CONFLICTING_SETTINGS,
            )
        texts = self.instructions[: min(self.trained_on, language.COMPARED)]
        if texts:
            language.require_same(given, texts, self.weights[TABLE][: len(texts)].float().numpy())

    def _language(self, spec: PolicySpec) -> dict[str, Any]:
        """What the adapted policy knows of instructions: with none given, what it began with and
        the new ones; embeddings that were given must have been given for those, too.
        """
        if not isinstance(spec.settings, DiffusionSettings) or not spec.learned_language:
            return {}
        if not self.learned_language:
            if new := [text for text in spec.instructions if text not in self.instructions]:
                raise CapexError(
                    f"--init was trained with given embeddings of instructions and has none of"
                    f" '{new[0]}'; name the file or the encoder with --instructions",
                    code=ErrorCode.MISMATCH,
                )
            both = dict.fromkeys((*spec.instructions, *self.instructions))
            return {"instructions": tuple(both), "learned_language": False}
        if isinstance(self.settings, DiffusionSettings) and self.settings.text == "words":
            return {"vocabulary": vocabulary_of(spec.instructions, self.vocabulary)}
        return {"vocabulary": ()}

    def _words(self, weights: dict[str, Tensor], spec: PolicySpec) -> Tensor:
        """A known word keeps its vector, a new one begins at the mean of the known ones."""
        known = weights[WORDS]
        mean = known[1:].mean(dim=0, keepdim=True)
        return torch.cat([known, mean.repeat(1 + len(spec.vocabulary) - len(known), 1)])

    def _embeddings(
        self, shape: tuple[int, int], weights: dict[str, Tensor], spec: PolicySpec
    ) -> Tensor:
        """A known instruction keeps its embedding, a new one begins at the mean of the known ones;
        where none is known, all begin at random.
        """
        known = weights.get(TABLE)
        if known is None or not self.instructions:
            generator = torch.Generator().manual_seed(int(spec.training["seed"]))
            return 0.02 * torch.randn(shape, generator=generator)
        rows = known[: len(self.instructions)].mean(dim=0, keepdim=True).repeat(shape[0], 1)
        for k, text in enumerate(spec.instructions):
            if text in self.instructions:
                rows[k] = known[self.instructions.index(text)]
        return rows


def read(
    path: Path, settings: Settings, demonstrations: Demonstrations, *, trust_pickle: bool
) -> Pretrained:
    """Open what --init names."""
    if path.is_dir():
        spec, weights = checkpoint.load_policy_files(path)
        checkpoint.require_fit(str(path), spec, weights)
        if spec.policy != settings.policy:
            raise CapexError(
                f"{path} is a policy of kind {spec.policy}; --policy {settings.policy} was"
                " asked for",
                code=ErrorCode.MISMATCH,
            )
        _require_same_inputs(path, spec, demonstrations)
        words = f"fine-tuned from a policy of ours ({spec.training.get('steps', '?')} steps)"
        mixed, starts = _mixed(path, spec.settings, settings), spec.training.get("starts", ())
        return Pretrained(
            mixed,
            weights,
            spec.normalizer,
            words,
            spec.norm,
            spec.instructions,
            spec.training.get("instructions", len(spec.instructions)),
            spec.learned_language,
            spec.vocabulary,
            tuple(starts),
        )
    if not path.is_file():
        raise CapexError(
            f"--init {path}: there is no such file or folder; give a policy of `capex train`, or"
            " RoboCasa365's checkpoint",
            code=ErrorCode.NOT_FOUND,
        )
    if not isinstance(settings, DiffusionSettings):
        raise CapexError(
            f"{path} is a file; only Diffusion Policy begins from one (RoboCasa365's checkpoint):"
            " add --policy diffusion",
            code=ErrorCode.CONFLICTING_SETTINGS,
        )
    _require_same_numbers(path, robocasa.STATE_NAMES, robocasa.ACTION_NAMES, demonstrations)
    released = robocasa.read(path, settings, demonstrations.cameras, trust_pickle=trust_pickle)
    how = f"fine-tuned from {path.name}"
    return Pretrained(settings, *released, how, learned_language=False)  # CLIP's, not in the file


def _mixed(path: Path, old: Settings, asked: Settings) -> Settings:
    """Sizes are the checkpoint's, and others are refused; how to train is this run's."""
    architecture = [f for f in fields(old) if f.name in architecture_names(old)]
    for f in architecture:
        mine, theirs = getattr(asked, f.name), getattr(old, f.name)
        if mine not in (theirs, f.default):
            raise CapexError(
                f"setting {f.name} is {mine} and {path} has {theirs}; a policy that begins from it"
                " keeps that: leave it out",
                code=ErrorCode.MISMATCH,
            )
    mixed: Settings = replace(asked, **{f.name: getattr(old, f.name) for f in architecture})
    return mixed


def _require_same_inputs(path: Path, spec: PolicySpec, demonstrations: Demonstrations) -> None:
    if spec.cameras != demonstrations.cameras:
        raise CapexError(
            f"{path} was trained with other cameras ({', '.join(spec.cameras)}) than the dataset"
            " has",
            code=ErrorCode.MISMATCH,
        )
    _require_same_numbers(path, spec.state_names, spec.action_names, demonstrations)
    if spec.image_size != demonstrations.size:
        raise CapexError(
            "{} was trained on {}x{} images and the dataset has {}x{}".format(
                path, *spec.image_size, *demonstrations.size
            ),
            code=ErrorCode.MISMATCH,
        )


def _require_same_numbers(
    path: Path,
    state_names: tuple[str, ...],
    action_names: tuple[str, ...],
    demonstrations: Demonstrations,
) -> None:
    """A column of state or action means what it meant in training, in the same place."""
    for what, trained_with, now in (
        ("state", state_names, demonstrations.state_names),
        ("action", action_names, demonstrations.action_names),
    ):
        if trained_with != now:
            raise CapexError(
                f"{path} was trained with other numbers of {what}, or in another order"
                f" ({', '.join(trained_with)}), than the dataset has ({', '.join(now)})",
                code=ErrorCode.MISMATCH,
            )
