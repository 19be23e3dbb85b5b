"""A small text encoder of ours for Diffusion Policy: an instruction's words, looked up and joined,
so that known words in a new order or combination have an embedding of their own.

    x_k = E[word k],  h_k = relu(conv_3(x))_k,  embedding = linear(mean_k (x_k + h_k))

It is learned with the policy and knows the words of its training; words that it never saw are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from capex.students.hearing import WORDS_MAX, tokens_of

WIDTH = 64  # of a word's vector


class WordEncoder(nn.Module):
    """The encoder, with the tokens of the instructions it is trained on."""

    def __init__(self, instructions: Sequence[str], vocabulary: Sequence[str], size: int):
        super().__init__()
        self.embedding = nn.Embedding(len(vocabulary) + 1, WIDTH, padding_idx=0)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.linear = nn.Linear(WIDTH, size)
        rows = [tokens_of(text, vocabulary) for text in instructions]
        tokens = torch.tensor(rows, dtype=torch.int64).reshape(len(rows), WORDS_MAX)
        self.register_buffer("tokens", tokens, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows (B,) of the instructions trained on -> embeddings (B, size)."""
        return self.encode(self.get_buffer("tokens")[rows])

    def encode(self, tokens: Tensor) -> Tensor:
        """Tokens (B, WORDS_MAX) -> embeddings (B, size)."""
        there = (tokens > 0).to(self.linear.weight.dtype)[..., None]  # (B, L, 1)
        words = self.embedding(tokens)  # (B, L, D)
        mixed = F.relu(self.convolution(words.transpose(1, 2))).transpose(1, 2)
        mean = ((words + mixed) * there).sum(dim=1) / there.sum(dim=1).clamp(min=1.0)
        out: Tensor = self.linear(mean)
        return out
