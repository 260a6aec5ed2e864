"""Fingerprints of tensors: some elements, the extremes and the sum."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

# 512 places, the extremes and the mean tell two tensors apart without keeping copies of them.
POINTS = 512


@dataclass(frozen=True)
class Fingerprint:
    """Sampled elements, extremes and mean of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    points: tuple[float, ...]
    summary: tuple[float, float, float]

    def equals(self, other: "Fingerprint", tolerance: float = 0.0) -> bool:
        """Return whether all values agree within a tolerance."""
        # Relative to the larger extreme, so that the scale of a tensor does not matter.
        bound = tolerance * max(map(abs, (*self.summary[:2], *other.summary[:2])))
        mine, theirs = (*self.points, *self.summary), (*other.points, *other.summary)
        return self.shape == other.shape and all(abs(a - b) <= bound for a, b in zip(mine, theirs, strict=True))

    @property
    def magnitude(self) -> float:
        """The largest magnitude."""
        return max(abs(self.summary[0]), abs(self.summary[1]))


def take_fingerprint(tensor: Tensor) -> Fingerprint | None:
    """Return the fingerprint of a dense, nonempty floating-point tensor on the CPU, else None."""
    plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
    if not plain or not tensor.is_floating_point() or not tensor.numel():
        return None
    values = tensor.detach()
    low, high = torch.aminmax(values)
    points = values[choose_places(tuple(values.shape))] if values.ndim else values.reshape(1)
    summary = (float(low), float(high), float(values.mean(dtype=torch.float64)))
    return Fingerprint(tuple(values.shape), values.dtype, tuple(points.double().tolist()), summary)


@lru_cache(maxsize=64)
def choose_places(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return the same indices for every tensor of a shape."""
    # A fixed seed: fingerprints of two tensors are comparable only at the same places.
    source = torch.Generator().manual_seed(3)
    return tuple(torch.randint(size, (POINTS,), generator=source) for size in shape)
