"""A few numbers that two tensors of different values do not share: some elements, the extremes, the sum."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

POINTS = 512


@dataclass(frozen=True)
class Fingerprint:
    """Elements at fixed places, and the least, the largest and the mean of all; of floating tensors only."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    points: tuple[float, ...]
    summary: tuple[float, float, float]

    def same(self, other: "Fingerprint", tolerance: float = 0.0) -> bool:
        """Equal values within a share of the largest."""
        bound = tolerance * max(map(abs, (*self.summary[:2], *other.summary[:2])))
        mine, theirs = (*self.points, *self.summary), (*other.points, *other.summary)
        return self.shape == other.shape and all(abs(a - b) <= bound for a, b in zip(mine, theirs, strict=True))

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.summary[0]), abs(self.summary[1]))


def fingerprint(tensor: Tensor) -> Fingerprint | None:
    """The fingerprint of a floating tensor on the CPU; none for others, the empty and the sparse."""
    plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if not plain or not tensor.is_floating_point() or not tensor.numel():
        return None
    values = tensor.detach()
    low, high = torch.aminmax(values)
    points = values[places(tuple(values.shape))] if values.ndim else values.reshape(1)
    summary = (float(low), float(high), float(values.mean(dtype=torch.float64)))
    return Fingerprint(tuple(values.shape), values.dtype, tuple(points.double().tolist()), summary)


@lru_cache(maxsize=64)
def places(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """The same places for every tensor of a shape."""
    source = torch.Generator().manual_seed(3)
    return tuple(torch.randint(size, (POINTS,), generator=source) for size in shape)
