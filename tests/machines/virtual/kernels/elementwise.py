"""What the kernels of elementwise.cu must give."""

import math

import numpy as np
import torch
from corpus import by_element, draw, sample, whole
from exactly import BFLOAT16, FLOAT16, FLOAT64, Format, Number, fused


@sample("vector_add", draw(1000), draw(1000, seed=1))
def vector_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


@sample("vector_add", torch.empty(0), torch.empty(0), tag="empty")
def vector_add_empty(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


@sample("saxpy_grid_stride", 1.7, draw(1000), draw(1000, seed=1))
def saxpy(alpha: float, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return by_element(fused, torch.full_like(x, alpha), x, y)


@sample("float4_shuffle", draw(4 * 130))
def float4_shuffle(x: torch.Tensor) -> torch.Tensor:
    a, b, c, d = x.reshape(-1, 4).unbind(1)
    return torch.stack([d, a * 2, b - c, c.clamp(min=0)], 1).flatten()


def _small(dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Magnitudes from denormal to nearly infinite, and infinity."""
    scale = torch.exp2(whole(256, low=-16, high=13, seed=seed + 10).double())
    values = (draw(256, seed=seed, dtype=torch.float64) * scale).to(dtype)
    values[7] = torch.inf
    return values


@sample("half2_fma", _small(torch.float16, 0), _small(torch.float16, 1), _small(torch.float16, 2))
def half2_fma(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return by_element(fused, a, b, c, to=FLOAT16)


def _add(a: Number, b: Number) -> Number:
    return a + b


def _multiply(a: Number, b: Number) -> Number:
    return a * b


def _subtract(a: Number, b: Number) -> Number:
    return a - b


def _common(a: torch.Tensor, b: torch.Tensor, to: Format) -> list[torch.Tensor]:
    exact = [by_element(operation, a, b, to=to) for operation in (_add, _multiply, _subtract)]
    return [*exact, torch.maximum(a, b), torch.minimum(a, b), -a.abs(), torch.where(a < b, a, b)]


@sample("half_arithmetic", _small(torch.float16, 3), _small(torch.float16, 4))
def half_arithmetic(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    root = a.abs().double().sqrt().to(a.dtype)
    scaled = (a.float() * torch.tensor(1.0009765)).to(a.dtype)
    counted = (torch.arange(a.numel()) * 37).to(a.dtype)
    return torch.stack([*_common(a, b, FLOAT16), root, scaled, counted], 1)


@sample("bfloat_arithmetic", _small(torch.bfloat16, 5), _small(torch.bfloat16, 6))
def bfloat_arithmetic(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    scaled = (a.float() * torch.tensor(1.00390625)).to(a.dtype)
    counted = (torch.arange(a.numel()) * 37).to(a.dtype)
    return torch.stack([*_common(a, b, BFLOAT16), by_element(fused, a, b, a, to=BFLOAT16), scaled, counted], 1)


@sample("cached_loads", draw(500))
def cached_loads(x: torch.Tensor) -> torch.Tensor:
    return x + x.flip(0) + x + x + x


@sample("struct_parameter", draw(300))
def struct_parameter(x: torch.Tensor) -> torch.Tensor:
    value = x
    for step in range(5):
        scale = torch.full_like(x, (0.5, 2.0, -1.0)[step % 3])
        value = by_element(fused, value, scale, torch.full_like(x, 0.25))
    return value + 7


@sample("grid_3d", torch.zeros(5, 7, 19, dtype=torch.int32))
def grid_3d(like: torch.Tensor) -> torch.Tensor:
    z, y, x = torch.meshgrid(*(torch.arange(n, dtype=torch.int32) for n in like.shape), indexing="ij")
    return x + 1000 * y + 1000000 * z


def _horner(x: torch.Tensor, to: Format) -> torch.Tensor:
    total = torch.ones_like(x)
    for k in (4, 3, 2, 1):
        total = by_element(fused, total, x, torch.full_like(x, k), to=to)
    return total


@sample("templated", draw(200), tag="float")
def templated_float(x: torch.Tensor) -> torch.Tensor:
    return by_element(lambda v: v, _horner(x, Format(24, 127, -126)))


@sample("templated", draw(200, dtype=torch.float64), tag="double")
def templated_double(x: torch.Tensor) -> torch.Tensor:
    return _horner(x, FLOAT64)


@sample("double_arithmetic", draw(128, dtype=torch.float64))
def double_arithmetic(x: torch.Tensor) -> torch.Tensor:
    b = x.flip(0)
    up, down = (by_element(_add, x, b, to=FLOAT64, mode=mode) for mode in ("ru", "rd"))
    single = x.float().double()
    counted = (x * 1e6).trunc()
    product = by_element(lambda p, q: p * q - p, x, b, to=FLOAT64)
    root = torch.tensor([math.sqrt(abs(value)) for value in x.tolist()], dtype=torch.float64)  # torch may be a bit off
    return torch.stack([product, x / b, root, up - down, (x * 1000).trunc(), single, counted], 1)


@sample("constant_memory", whole(260))
def constant_memory(x: torch.Tensor) -> torch.Tensor:
    values = x.numpy()
    taps = [1, 2, 3, 4, -4, -3, -2, -1]
    total = 0.5 + sum(tap * np.roll(values, -k) for k, tap in enumerate(taps))
    return torch.from_numpy((total + np.array([3, 1, 4, 1])[np.arange(260) % 4]).astype(np.float32))
