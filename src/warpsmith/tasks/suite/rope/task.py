"""Rotary position embedding of queries and keys, in the half-split form of LLaMA."""

import torch
from torch import Tensor

from warpsmith.tasks.api import Case, Draw, Fixed, Input

BASES = (10000.0, 500000.0, 1000000.0)  # LLaMA 2, LLaMA 3, long contexts
FIRST = 4096  # the first token's position is below it: a sequence may go on from a cache
TURN_HIGH, TURN_LOW = 6.283184051513672, 1.2556659146982142e-06  # 2π, the first part of 22 bits so that k·2π is exact


def forward(q: Input, k: Input, cos: Fixed, sin: Fixed) -> tuple[Tensor, Tensor]:
    """Turn each pair (i, i + dim/2) of every head by its position's angle."""
    return _turned(q, cos, sin), _turned(k, cos, sin)


def inputs(case: Case, draw: Draw) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries and keys of the family; tables of a drawn base and first position in the element type."""
    batch, heads, kv_heads, seq, dim = case.sizes("batch", "heads", "kv_heads", "seq", "dim")
    q, k = draw.input(batch, heads, seq, dim), draw.input(batch, kv_heads, seq, dim)
    base, first = draw.bits(len(BASES), 1), draw.bits(FIRST, 1)  # never read here: an outline has no numbers
    cos, sin = tables(first, seq, torch.stack([_frequencies(dim // 2, one) for one in BASES])[base])
    return q, k, cos.to(draw.dtype), sin.to(draw.dtype)


def tables(first: Tensor, seq: int, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of position · frequency in float64, by + - * / alone: the same bits on every machine."""
    angles = (torch.arange(seq, dtype=torch.float64) + first).unsqueeze(1) * frequencies
    turns = (angles / TURN_HIGH).round()
    rest = angles - turns * TURN_HIGH - turns * TURN_LOW
    square = rest * rest
    return _series(square, 0), _series(square, 1) * rest


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def _frequencies(half: int, base: float) -> Tensor:
    """base^(-i/half)."""
    ratio = _root(base, half)
    found = [1.0]
    for _ in range(half - 1):
        found.append(found[-1] / ratio)
    return torch.tensor(found, dtype=torch.float64)


def _root(value: float, degree: int) -> float:
    """The degree-th root by Newton's steps from above; stops when they no longer descend."""
    guess = 1.0 + value / degree
    while True:
        power = 1.0
        for _ in range(degree - 1):
            power *= guess
        better = guess - (guess - value / power) / degree
        if better >= guess:
            return guess
        guess = better


def _series(square: Tensor, first: int) -> Tensor:
    """Taylor's series of cosine (first = 0) or of sine over its argument (first = 1), exact to 1e-16 up to π."""
    total = torch.ones_like(square)
    for term in range(30 + first, first, -2):
        total = 1.0 - square / (term * (term - 1)) * total
    return total
