"""The embeddings of instructions that a policy acts on, those that it never saw included."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from capex.errors import CapexError, ErrorCode
from capex.students import language
from capex.students.act import ACT
from capex.students.diffusion import Diffusion
from capex.students.hearing import tokens_of
from capex.students.spec import PolicySpec
from capex.students.words import WordEncoder


class Interpreter:
    """Embeddings by instruction, each made once."""

    def __init__(self, spec: PolicySpec, net: ACT | Diffusion, encoder: Path | None = None):
        self._spec, self._net, self._encoder = spec, net, encoder
        self._known: dict[str, Tensor] = {}
        if encoder is not None:
            self._require_same(encoder)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(B, size) on the CPU; of size 0 where the policy reads no instruction."""
        if not isinstance(self._net, Diffusion):
            return torch.zeros((len(texts), 0))
        for text in dict.fromkeys(texts):
            if text not in self._known:
                self._known[text] = self._vector(text)
        return torch.stack([self._known[text] for text in texts])

    @torch.no_grad()
    def _vector(self, text: str) -> Tensor:
        assert isinstance(self._net, Diffusion)
        spec, module = self._spec, self._net.instructions
        if text in spec.instructions:
            return self._rows([spec.instructions.index(text)])[0]
        if isinstance(module, WordEncoder):
            tokens = tokens_of(text, spec.vocabulary)
            if any(tokens):
                device = module.linear.weight.device
                return module.encode(torch.tensor([tokens], device=device))[0].float().cpu()
        if self._encoder is not None:
            given = language.read(self._encoder, [text], spec.language_size)
            return torch.from_numpy(given)[0]
        if spec.language == "given":
            raise CapexError(
                f"the policy has no embedding of '{text}'; it was trained with given ones: name"
                " the encoder or a file that has it with --instructions",
                code=ErrorCode.MISMATCH,
            )
        return self._rows(list(range(len(spec.instructions)))).mean(dim=0)

    @torch.no_grad()
    def _rows(self, rows: list[int]) -> Tensor:
        assert isinstance(self._net, Diffusion)
        parameter = next(self._net.parameters())
        given = torch.tensor(rows or [0], device=parameter.device)
        out: Tensor = self._net.instructions(given).float().cpu()
        return out

    def _require_same(self, encoder: Path) -> None:
        """Refuse an encoder that gives other embeddings than the policy was trained with."""
        spec = self._spec
        if spec.language != "given":
            raise CapexError(
                "--instructions names an encoder, and the policy was trained without one: it"
                " learned its embeddings",
                code=ErrorCode.NOT_APPLICABLE,
            )
        count = spec.training.get("instructions", len(spec.instructions))
        texts = spec.instructions[: min(count, language.COMPARED)]
        language.require_same(encoder, texts, self._rows(list(range(len(texts)))).numpy())
