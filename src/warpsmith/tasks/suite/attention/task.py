"""Causal self-attention on queries, keys and values already split into heads."""

from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from warpsmith.records import Family
from warpsmith.tasks.api import Case, Draw, Input

SHRINK = 2.0**-8  # huge inputs become four times normal: scores to ±100, which overflow without the maximum


def forward(q: Input, k: Input, v: Input) -> Tensor:
    """softmax(q · kᵀ / √dim, no look ahead) · v for every head."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def saved(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The output, and log-sum-exp of each row's scaled scores in float32."""
    lse = torch.stack([_log_sum_exp(a, b) for a, b in zip(q.flatten(0, 1), k.flatten(0, 1), strict=True)])
    return forward(q, k, v).contiguous(), lse.reshape(q.shape[:3])  # on a GPU torch may give it in another order


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """Heads of the family; the huge one is held to scores whose softmax is not one-hot everywhere."""
    batch, heads, seq, dim = case.sizes("batch", "heads", "seq", "dim")
    scale = SHRINK if draw.family is Family.HUGE else 1.0
    q, k = (draw.input(batch, heads, seq, dim, scale=scale) for _ in range(2))
    return q, k, draw.input(batch, heads, seq, dim)


def _log_sum_exp(q: Tensor, k: Tensor) -> Tensor:
    scores = q.float() @ k.float().T / sqrt(q.shape[-1])
    ahead = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return torch.logsumexp(scores.masked_fill(ahead, float("-inf")), -1)
