"""Correctly rounded results of small formats, by exact fractions. Knows no kernel."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

Number = float | Fraction


@dataclass(frozen=True)
class Format:
    """A binary format of IEEE 754: bits of the significand, exponents of the largest and the smallest normal."""

    bits: int
    largest: int
    smallest: int


FLOAT16 = Format(11, 15, -14)
BFLOAT16 = Format(8, 127, -126)
FLOAT32 = Format(24, 127, -126)
FLOAT64 = Format(53, 1023, -1022)


def rounded(value: Fraction, to: Format, mode: str = "rn") -> float:
    """A value that is not zero, rounded as PTX's rn, rz, ru and rd say."""
    negative, size = value < 0, abs(value)
    exponent = max(_exponent(size), to.smallest)
    unit = Fraction(2) ** (exponent - to.bits + 1)
    whole, rest = divmod(size, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1),
        "rz": False,
        "ru": rest > 0 and not negative,
        "rd": rest > 0 and negative,
    }[mode]
    result: Number = (whole + up) * unit
    if result >= Fraction(2) ** (to.largest + 1):
        beyond = mode == "rn" or (mode == "ru" and not negative) or (mode == "rd" and negative)
        result = math.inf if beyond else (2 - Fraction(2) ** (1 - to.bits)) * Fraction(2) ** to.largest
    return math.copysign(float(result), -1.0 if negative else 1.0)


def _exponent(size: Fraction) -> int:
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if Fraction(2) ** guess <= size else guess - 1


def evaluate(operation: Callable[..., Number], to: Format, mode: str, *arguments: float) -> float:
    """`operation` on exact arguments, rounded once; infinities, NaN and exact zeros as floats give them."""
    if all(math.isfinite(argument) for argument in arguments):
        exact = operation(*(Fraction(argument) for argument in arguments))
        if exact != 0:
            return rounded(Fraction(exact), to, mode)
    return float(operation(*arguments))


def fused(a: Number, b: Number, c: Number) -> Number:
    """a * b + c, to be rounded once."""
    return a * b + c
