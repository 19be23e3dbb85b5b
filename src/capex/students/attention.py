"""Multi-head attention and feed-forward layers shared by both policies, with the parameter names of torch's own modules."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(d)) V per head. One packed input matrix, as in nn.MultiheadAttention; batch first."""

    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        self.out_proj = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """query (B, Q, D), key and value (B, K, D); mask broadcasts to (B, heads, Q, K), True where attention is allowed."""
        wq, wk, wv = self.in_proj_weight.chunk(3)
        bq, bk, bv = self.in_proj_bias.chunk(3)
        if query is key and key is value:
            q, k, v = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        elif query is key:
            dim = query.shape[-1]
            q, k = F.linear(query, self.in_proj_weight[: 2 * dim], self.in_proj_bias[: 2 * dim]).chunk(2, dim=-1)
            v = F.linear(value, wv, bv)
        else:
            q, k, v = F.linear(query, wq, bq), F.linear(key, wk, bk), F.linear(value, wv, bv)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (q, k, v))  # (B, heads, L, D/heads)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        attended: Tensor = self.out_proj(out.transpose(1, 2).flatten(2))
        return attended
