"""Multi-head attention for both policies, with the parameter names of torch's own module."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(d)) V per head; one packed input matrix, batch first."""

    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.dim, self.heads, self.dropout = dim, heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        self.out_proj = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def project(self, x: Tensor, first: int, last: int) -> Tensor:
        """Of queries, keys, values (0, 1, 2), first to last: (so many, B, heads, L, D/heads)."""
        weight: Tensor = self.in_proj_weight
        bias: Tensor = self.in_proj_bias
        if (first, last) != (0, 2):  # the gradient of a part is as large as the whole
            rows = slice(first * self.dim, (last + 1) * self.dim)
            weight, bias = weight[rows], bias[rows]
        split = F.linear(x, weight, bias).view(*x.shape[:2], last + 1 - first, self.heads, -1)
        return split.permute(2, 0, 3, 1, 4)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """(B, L, D) from projected q, k, v. The mask broadcasts to (B, heads, Q, K): True where
        attention is allowed, or what is added.
        """
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        attended: Tensor = self.out_proj(out.transpose(1, 2).flatten(2))
        return attended

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """query (B, Q, D), key and value (B, K, D). The same tensor is projected once."""
        if query is key and key is value:
            q, k, v = self.project(query, 0, 2)
        elif query is key:
            (q, k), (v,) = self.project(query, 0, 1), self.project(value, 2, 2)
        elif key is value:
            (q,), (k, v) = self.project(query, 0, 0), self.project(key, 1, 2)
        else:
            (q,), (k,) = self.project(query, 0, 0), self.project(key, 1, 1)
            (v,) = self.project(value, 2, 2)
        return self.attend(q, k, v, mask, causal)
