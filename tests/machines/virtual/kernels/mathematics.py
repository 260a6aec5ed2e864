"""What the kernels of mathematics.cu must give, with the errors that NVIDIA documents for each function."""

import math
from collections.abc import Callable

import torch
from corpus import by_element, draw, sample, ulps
from exactly import FLOAT32, Number, evaluate

SPREAD = draw(600, seed=9) * 3
TURN = SPREAD.clamp(-math.pi, math.pi)  # where the fast sine and cosine have a documented error

# CUDA C++ Programming Guide, "Mathematical Functions", single precision: the largest distance in ulp between the result
# and the correctly rounded one.
FULL: tuple[tuple[Callable[[torch.Tensor], torch.Tensor], float], ...] = (
    (lambda v: v.exp(), 2),  # an H200 was seen 1.54 ulp from the truth at 2.44477367, which rounds the other way
    (lambda v: positive(v).log(), 1),
    (lambda v: v.sin(), 2),
    (lambda v: v.cos(), 2),
    (lambda v: positive(v) ** 1.75, 4),
    (lambda v: v.erf(), 2),
    (lambda v: positive(v).rsqrt(), 2),
    (lambda v: v.tanh(), 2),
    (lambda v: v.sign() * v.abs() ** (1 / 3), 1),
    (lambda v: positive(v).log1p(), 1),
    (lambda v: v.expm1(), 1),
    (lambda v: v.exp2(), 2),
    (lambda v: positive(v).log2(), 1),
    (lambda v: positive(v).sqrt(), 0),
    (lambda v: 1 / positive(v), 0),
    (lambda v: v / positive(v), 0),
)


def positive(v: torch.Tensor) -> torch.Tensor:
    """|v| + 0.01 as the kernel computes it, in float32."""
    return (v.float().abs() + torch.tensor(0.01)).double()


@sample("math_functions", SPREAD, bound=ulps(*(error for _, error in FULL)))
def math_functions(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([function(x.double()) for function, _ in FULL], 1).float()


def fast_bound(expected: torch.Tensor) -> torch.Tensor:
    """The same guide, "Intrinsic Functions", and the PTX ISA for the approximate instructions."""
    v, p = TURN.double(), positive(TURN)
    one = ulps(1)(expected)
    inside = (p >= 0.5) & (p <= 2)
    return torch.stack(
        [
            one[:, 0] * (2 + (1.173 * v).abs().floor()),
            torch.where(inside, torch.tensor(2**-21.41, dtype=torch.float64), 3 * one[:, 1]),
            torch.full_like(v, 2**-21.41),
            torch.full_like(v, 2**-21.19),
            one[:, 4] * 2,
            expected[:, 5].abs() * 2**-11,
            expected[:, 6].abs() * 2**-22.9,
            one[:, 7],
        ],
        1,
    )


@sample("fast_functions", TURN, bound=fast_bound)
def fast_functions(x: torch.Tensor) -> torch.Tensor:
    v, p = x.double(), positive(x)
    return torch.stack([v.exp(), p.log(), v.sin(), v.cos(), v / p, v.tanh(), p.rsqrt(), 1 / p], 1)


def _scaled(seed: int) -> torch.Tensor:
    exponents = torch.randint(-30, 30, (200,), generator=torch.Generator().manual_seed(seed))
    return draw(200, seed=seed) * torch.exp2(exponents.float())


def _with_mode(operation: Callable[..., Number], mode: str) -> Callable[..., torch.Tensor]:
    return lambda a, b: by_element(operation, a, b, mode=mode)


def _whole_numbers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    away = torch.tensor([evaluate(_half_away, FLOAT32, "rn", value) for value in a.double().tolist()]).float()
    return a.round() + b.floor() - a.ceil() + b.trunc() + away


def _half_away(value: Number) -> Number:
    return math.copysign(math.floor(abs(float(value)) + 0.5), float(value))


@sample("roundings", _scaled(1), _scaled(2))
def roundings(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    sums = [_with_mode(lambda a, b: a + b, mode)(x, y) for mode in ("rn", "rz", "ru", "rd")]
    products = [_with_mode(lambda a, b: a * b, mode)(x, y) for mode in ("rn", "rz")]
    fused = by_element(lambda a, b: a * b + a, x, y)
    quotient = by_element(lambda a, b: a / b, x, y)
    root = x.abs().double().sqrt().float()  # 53 bits are enough for a square root of 24 to be rounded once
    inverse = by_element(lambda b: 1 / b, y)
    both = torch.minimum(x, y) + torch.maximum(x, y)
    return torch.stack([*sums, *products, fused, quotient, root, inverse, both, _whole_numbers(x, y)], 1)
