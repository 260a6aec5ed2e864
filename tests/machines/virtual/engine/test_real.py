"""Floating point against exact rational arithmetic: roundings, flushing, saturation, 16-bit formats, conversions."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


@dataclass(frozen=True)
class Format:
    """An IEEE format by its exponent and fraction bits."""

    exponent: int
    fraction: int
    storage: Any

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1


FORMATS = {
    "f16": Format(5, 10, np.uint16),
    "bf16": Format(8, 7, np.uint16),
    "f32": Format(8, 23, np.uint32),
    "f64": Format(11, 52, np.uint64),
}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


@dataclass(frozen=True)
class Number:
    """A value with the sign of zero kept; infinite and NaN are said apart."""

    value: Fraction
    negative: bool
    special: str = ""


def decode(bits: int, form: Format) -> Number:
    negative = bool(bits & form.sign)
    magnitude = bits & (form.sign - 1)
    if magnitude > form.infinity:
        return Number(Fraction(0), negative, "nan")
    if magnitude == form.infinity:
        return Number(Fraction(0), negative, "inf")
    exponent, fraction = magnitude >> form.fraction, magnitude & ((1 << form.fraction) - 1)
    mantissa = fraction + (1 << form.fraction if exponent else 0)
    value = Fraction(mantissa) * Fraction(2) ** (max(exponent, 1) - form.bias - form.fraction)
    return Number(-value if negative else value, negative)


def quantum(value: Fraction, form: Format) -> Fraction:
    """The distance of neighbours around a value."""
    exponent = (
        math.floor(math.log2(value))
        if value < 2**1000 and value > Fraction(1, 2**1000)
        else value.numerator.bit_length() - value.denominator.bit_length()
    )
    while Fraction(2) ** exponent > value:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= value:
        exponent += 1
    return Fraction(2) ** (max(exponent, 1 - form.bias) - form.fraction)


def round_integer(value: Fraction, mode: str, negative: bool) -> int:
    floor = math.floor(value)
    rest = value - floor
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1),
        "rz": False,
        "rna": rest >= Fraction(1, 2),
        "rp": rest > 0 and not negative,
        "rm": rest > 0 and negative,
    }[mode]
    return floor + up


def encode(value: Fraction, negative: bool, form: Format, mode: str = "rn") -> int:
    sign = form.sign if negative else 0
    magnitude = abs(value)
    if magnitude == 0:
        return sign
    unit = quantum(magnitude, form)
    units = round_integer(magnitude / unit, mode, negative)
    rounded = units * unit
    if rounded == 0:
        return sign
    if rounded >= Fraction(2) ** (form.bias + 1):
        grows = mode in ("rn", "rna") or (mode == "rp" and not negative) or (mode == "rm" and negative)
        return sign | (form.infinity if grows else form.infinity - 1)
    unit = quantum(rounded, form)
    mantissa = int(rounded / unit)
    exponent = round(math.log2(unit)) + form.fraction + form.bias
    hidden = mantissa >= (1 << form.fraction)
    return sign | ((exponent << form.fraction if hidden else 0) + mantissa - (1 << form.fraction if hidden else 0))


def zero_sign(a: bool, b: bool, mode: str) -> bool:
    """The sign of an exact zero sum of two signs."""
    return a if a == b else mode == "rm"


def add(a: Number, b: Number, mode: str) -> Number:
    if "nan" in (a.special, b.special) or (a.special and b.special and a.negative != b.negative):
        return Number(Fraction(0), False, "nan")
    if a.special or b.special:
        return a if a.special else b
    value = a.value + b.value
    if value:
        return Number(value, value < 0)
    both_zero = not a.value and not b.value
    return Number(value, zero_sign(a.negative, b.negative, mode) if both_zero else mode == "rm")


def multiply(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if "nan" in (a.special, b.special):
        return Number(Fraction(0), False, "nan")
    if a.special or b.special:
        zero = (not a.special and not a.value) or (not b.special and not b.value)
        return Number(Fraction(0), negative, "nan" if zero else "inf")
    return Number(a.value * b.value, negative)


def divide(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if "nan" in (a.special, b.special) or (a.special and b.special):
        return Number(Fraction(0), False, "nan")
    if a.special:
        return Number(Fraction(0), negative, "inf")
    if b.special:
        return Number(Fraction(0), negative)
    if not b.value:
        return Number(Fraction(0), negative, "inf" if a.value else "nan")
    return Number(a.value / b.value, negative)


def negate(a: Number) -> Number:
    return Number(-a.value, not a.negative, a.special)


def finish(result: Number, name: str, mode: str = "rn") -> int | None:
    """The bits of a result; None where any NaN will do."""
    form = FORMATS[name]
    if result.special == "nan":
        return NAN.get(name)
    if result.special == "inf":
        return form.infinity | (form.sign if result.negative else 0)
    return encode(result.value, result.negative, form, mode)


def edges(name: str) -> list[int]:
    form = FORMATS[name]
    one = form.bias << form.fraction
    positive = [
        0,
        1,
        2,
        (1 << form.fraction) - 1,
        1 << form.fraction,
        one - 1,
        one,
        one + 1,
        one + (1 << form.fraction),
        one | (1 << (form.fraction - 1)),
        form.infinity - 1,
        form.infinity - (1 << form.fraction),
        form.infinity,
        form.infinity + 1 + (1 << (form.fraction - 1)),
    ]
    return positive + [p | form.sign for p in positive]


def random_bits(name: str, count: int, seed: int) -> list[int]:
    form = FORMATS[name]
    rng = np.random.default_rng(seed)
    near = rng.integers(0, 1 << form.bits, count // 2, dtype=np.uint64)
    exponents = rng.integers(form.bias - 14, form.bias + 14, count - count // 2).astype(np.uint64) << np.uint64(
        form.fraction
    )
    fractions = rng.integers(0, 1 << form.fraction, count - count // 2, dtype=np.uint64)
    signs = rng.integers(0, 2, count - count // 2).astype(np.uint64) << np.uint64(form.bits - 1)
    return [int(v) for v in np.concatenate([near, exponents | fractions | signs])]


def operands(name: str, count: int, seed: int = 0) -> list[NDArray[Any]]:
    """All combinations of edge values, then random ones."""
    chosen = edges(name) if count < 3 else edges(name)[::3]
    columns = list(zip(*itertools.product(chosen, repeat=count), strict=True))
    return [
        np.array([*column, *random_bits(name, 1200, seed + i)], FORMATS[name].storage)
        for i, column in enumerate(columns)
    ]


def check(actual: NDArray[Any], expected: Sequence[int | None], name: str, inputs: list[NDArray[Any]]) -> None:
    form = FORMATS[name]
    for i, (have, want) in enumerate(zip(actual.tolist(), expected, strict=True)):
        is_nan = (have & (form.sign - 1)) > form.infinity
        assert is_nan if want is None else have == want, (
            hex(have),
            want and hex(want),
            [hex(int(x[i])) for x in inputs],
        )


MODES = ["rn", "rz", "rm", "rp"]
Operation = Callable[..., Number]
BINARY: dict[str, Operation] = {
    "add": add,
    "sub": lambda a, b, m: add(a, negate(b), m),
    "mul": lambda a, b, m: multiply(a, b),
    "div": lambda a, b, m: divide(a, b),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("op", list(BINARY))
def test_binary(evaluate: Any, op: str, name: str, mode: str) -> None:
    a, b = operands(name, 2)
    actual = evaluate(f"{op}.{mode}.{name} {{d}}, {{a}}, {{b}};", a, b, result=FORMATS[name].storage)
    form = FORMATS[name]
    expected = [
        finish(BINARY[op](decode(int(x), form), decode(int(y), form), mode), name, mode)
        for x, y in zip(a, b, strict=True)
    ]
    check(actual, expected, name, [a, b])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_fma(evaluate: Any, name: str, mode: str) -> None:
    values = operands(name, 3)
    actual = evaluate(f"fma.{mode}.{name} {{d}}, {{a}}, {{b}}, {{c}};", *values, result=FORMATS[name].storage)
    form = FORMATS[name]
    expected = []
    for x, y, z in zip(*values, strict=True):
        product = multiply(decode(int(x), form), decode(int(y), form))
        expected.append(finish(add(product, decode(int(z), form), mode), name, mode))
    check(actual, expected, name, values)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_half_binary(evaluate: Any, op: str, name: str) -> None:
    a, b = operands(name, 2)
    actual = evaluate(f"{op}.rn.{name} {{d}}, {{a}}, {{b}};", a, b, result=np.uint16)
    form = FORMATS[name]
    expected = [
        finish(BINARY[op](decode(int(x), form), decode(int(y), form), "rn"), name) for x, y in zip(a, b, strict=True)
    ]
    check(actual, expected, name, [a, b])


def near_ties(name: str, count: int) -> list[NDArray[Any]]:
    """a * b + c where the sum lies a hair from a rounding half: twice rounded is wrongly rounded."""
    form = FORMATS[name]
    rng = np.random.default_rng(7)
    rows: list[tuple[int, int, int]] = []
    while len(rows) < count:
        x, y = (int(v) for v in rng.integers(form.bias - 3 << form.fraction, form.bias + 3 << form.fraction, 2))
        product = decode(x, form).value * decode(y, form).value
        half = quantum(product, form) / 2
        c = encode(abs(half), False, form)
        tiny = int(rng.integers(1, 1 << (form.fraction + 2)))
        rows += [(x, y, c), (x, y, c | form.sign), (x, y, tiny), (x, y, tiny | form.sign)]
    return [np.array(column, form.storage) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_half_fma(evaluate: Any, name: str) -> None:
    values = [np.concatenate(pair) for pair in zip(operands(name, 3), near_ties(name, 1000), strict=True)]
    actual = evaluate(f"fma.rn.{name} {{d}}, {{a}}, {{b}}, {{c}};", *values, result=np.uint16)
    form = FORMATS[name]
    expected = []
    for x, y, z in zip(*values, strict=True):
        expected.append(
            finish(add(multiply(decode(int(x), form), decode(int(y), form)), decode(int(z), form), "rn"), name)
        )
    check(actual, expected, name, values)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_packed_is_two(evaluate: Any, name: str) -> None:
    a, b, c = operands(name, 3)
    wide = [(x.astype(np.uint32) << 16) | np.roll(x, 1) for x in (a, b, c)]
    packed = evaluate(f"fma.rn.{name}x2 {{d}}, {{a}}, {{b}}, {{c}};", *wide, result=np.uint32)
    single = evaluate(f"fma.rn.{name} {{d}}, {{a}}, {{b}}, {{c}};", a, b, c, result=np.uint16)
    np.testing.assert_array_equal(packed >> 16, single)
    np.testing.assert_array_equal(packed & 0xFFFF, np.roll(single, 1))


def flushed(bits: int) -> int:
    return bits if bits & 0x7F800000 else bits & 0x80000000


@pytest.mark.parametrize("op", ["add", "mul"])
def test_flush_and_saturate(evaluate: Any, op: str) -> None:
    a, b = operands("f32", 2)
    form = FORMATS["f32"]
    plain = []
    for x, y in zip(a, b, strict=True):
        result = finish(BINARY[op](decode(flushed(int(x)), form), decode(flushed(int(y)), form), "rn"), "f32")
        plain.append(result)
    ftz = [flushed(r) if r is not None else None for r in plain]
    check(evaluate(f"{op}.ftz.f32 {{d}}, {{a}}, {{b}};", a, b, result=np.uint32), ftz, "f32", [a, b])
    saturated = [0 if r is None or r > 0x7F800000 else min(r, 0x3F800000) for r in ftz]
    check(evaluate(f"{op}.ftz.sat.f32 {{d}}, {{a}}, {{b}};", a, b, result=np.uint32), saturated, "f32", [a, b])


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_square_root(evaluate: Any, name: str) -> None:
    (a,) = operands(name, 1)
    form = FORMATS[name]
    actual = evaluate(f"sqrt.rn.{name} {{d}}, {{a}};", a, result=form.storage)
    expected: list[int | None] = []
    for x in a.tolist():
        n = decode(x, form)
        if n.special == "nan" or (n.negative and (n.value or n.special)):
            expected.append(NAN.get(name))
        elif n.special or not n.value:
            expected.append(x)
        else:
            scaled = n.value * Fraction(4) ** 1200
            root = Fraction(2 * math.isqrt(scaled.numerator // scaled.denominator) + 1, 2) / Fraction(2) ** 1200
            exact = Fraction(math.isqrt(scaled.numerator // scaled.denominator)) / Fraction(2) ** 1200
            expected.append(encode(exact if exact * exact == n.value else root, False, form))
    check(actual, expected, name, [a])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("target", "source"),
    [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"), ("f64", "f32"), ("f32", "f16"), ("f32", "bf16")],
)
def test_convert_real(evaluate: Any, target: str, source: str, mode: str) -> None:
    (a,) = operands(source, 1)
    form = FORMATS[source]
    narrow = FORMATS[target].bits < form.bits
    if not narrow and mode != "rn":
        return
    halves = random_ties(source, target) if narrow else np.array([], form.storage)
    a = np.concatenate([a, halves])
    rounding = f".{mode}" if narrow else ""
    actual = evaluate(f"cvt{rounding}.{target}.{source} {{d}}, {{a}};", a, result=FORMATS[target].storage)
    expected = [finish(decode(int(x), form), target, mode) for x in a]
    check(actual, expected, target, [a])


def random_ties(source: str, target: str) -> NDArray[Any]:
    """Values that lie exactly between two neighbours of the target, and the bits beside them."""
    wide, narrow = FORMATS[source], FORMATS[target]
    rng = np.random.default_rng(3)
    rows = []
    for bits in rng.integers(0, narrow.infinity, 400):
        n = (
            decode(int(bits), narrow).value
            + quantum(max(decode(int(bits), narrow).value, Fraction(1, 2**140)), narrow) / 2
        )
        exact = encode(n, False, wide)
        rows += [exact, exact - 1, exact + 1, exact | wide.sign]
    return np.array(rows, wide.storage)


INTEGERS = {
    "u8": (0, 255),
    "s8": (-128, 127),
    "u16": (0, 65535),
    "s16": (-32768, 32767),
    "u32": (0, 2**32 - 1),
    "s32": (-(2**31), 2**31 - 1),
    "u64": (0, 2**64 - 1),
    "s64": (-(2**63), 2**63 - 1),
}


def nearest_integer(value: Fraction, mode: str) -> int:
    if mode == "rni":
        return round(value)
    directed: dict[str, Callable[[Fraction], int]] = {"rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    return directed[mode](value)


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("target", list(INTEGERS))
@pytest.mark.parametrize("source", list(FORMATS))
def test_real_to_integer(evaluate: Any, source: str, target: str, mode: str) -> None:
    form = FORMATS[source]
    low, high = INTEGERS[target]
    bounds = [encode(Fraction(v), v < 0, form) for v in (low, high, low - 1, high + 1, 2**24 + 1)]
    halves = [encode(Fraction(2 * v + 1, 2), v < 0, form) for v in range(-6, 6)]
    a = np.array([*edges(source), *bounds, *halves, *random_bits(source, 400, 1)], form.storage)
    size = max(2, high.bit_length() // 8 if low == 0 else (high.bit_length() + 1) // 8)
    storage = np.dtype(f"u{size}")
    actual = evaluate(f"cvt.{mode}.{target}.{source} {{d}}, {{a}};", a, result=storage)
    for x, have in zip(a.tolist(), actual.tolist(), strict=True):
        n = decode(x, form)
        if n.special == "nan":
            want = 2**63 if size == 8 else 0
        elif n.special:
            want = low if n.negative else high
        else:
            want = min(max(nearest_integer(n.value, mode), low), high)
        assert have == want % 2 ** (8 * size), (hex(x), have, want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("target", list(FORMATS))
def test_integer_to_real(evaluate: Any, target: str, source: str, mode: str) -> None:
    if target == "f64" and source not in ("u64", "s64") and mode != "rn":
        return
    low, high = INTEGERS[source]
    rng = np.random.default_rng(5)
    values = [low, low + 1, high, high - 1, 0, 1, 2**11 + 1, 2**12 + 1, 2**9 + 1, (high >> 1) + 1] + [
        int(v) for v in rng.integers(low, high, 300, dtype=np.uint64 if low == 0 else np.int64)
    ]
    values += [v >> int(s) for v, s in zip(values, rng.integers(0, 40, len(values)), strict=True)]
    size = (high.bit_length() + 7) // 8
    values = [min(max(v, low), high) for v in values]
    a = np.array([v % 2 ** (8 * size) for v in values], f"u{size}")
    actual = evaluate(f"cvt.{mode}.{target}.{source} {{d}}, {{a}};", a, result=FORMATS[target].storage)
    expected: list[int | None] = [encode(Fraction(v), v < 0, FORMATS[target], mode) for v in values]
    check(actual, expected, target, [a])


def test_packed_conversions(evaluate: Any) -> None:
    (a,) = operands("f32", 1)
    b = np.roll(a, 5)
    for target in ("f16", "bf16"):
        actual = evaluate(f"cvt.rn.{target}x2.f32 {{d}}, {{a}}, {{b}};", a, b, result=np.uint32)
        check(actual >> 16, [finish(decode(int(x), FORMATS["f32"]), target) for x in a], target, [a])
        check(actual & 0xFFFF, [finish(decode(int(x), FORMATS["f32"]), target) for x in b], target, [b])


def test_tf32(evaluate: Any) -> None:
    (a,) = operands("f32", 1)
    a = np.concatenate([a, np.array([0x3F801000, 0x3F800FFF, 0x3F803000, 0x3F801001, 0x7F7FFFFF], np.uint32)])
    actual = evaluate("cvt.rna.tf32.f32 {d}, {a};", a, result=np.uint32)
    tf32 = Format(8, 10, np.uint32)
    for x, have in zip(a.tolist(), actual.tolist(), strict=True):
        n = decode(x, FORMATS["f32"])
        if n.special == "nan":
            assert have & 0x7FFFFFFF > 0x7F800000
            continue
        want = x if n.special else encode(n.value, n.negative, tf32, "rna") << 13
        assert have == want, (hex(x), hex(have), hex(want))


def test_fp8(evaluate: Any) -> None:
    everything = np.arange(65536, dtype=np.uint16)
    for name, nan in (("e4m3", 0x7F), ("e5m2", 0x7F)):
        halves = evaluate(f"cvt.rn.f16x2.{name}x2 {{d}}, {{a}};", everything, result=np.uint32)
        back = evaluate(f"cvt.rn.satfinite.{name}x2.f16x2 {{d}}, {{a}};", halves, result=np.uint16)
        for byte, have in zip((everything & 0xFF).tolist(), (back & 0xFF).tolist(), strict=True):
            magnitude = byte & 0x7F
            infinite = name == "e5m2" and magnitude == 0x7C
            is_nan = magnitude == 0x7F or (name == "e5m2" and magnitude > 0x7C)
            want = (byte & 0x80) | 0x7B if infinite else nan if is_nan else byte
            assert have == want, (name, hex(byte), hex(have))


def extreme(a: Number, b: Number, larger: bool) -> Number:
    if a.special == "nan":
        return b
    if b.special == "nan":
        return a

    def key(n: Number) -> tuple[Fraction, bool]:
        return (Fraction(2) ** 5000 * (-1 if n.negative else 1) if n.special else n.value, not n.negative)

    return max(a, b, key=key) if larger else min(a, b, key=key)


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_max(evaluate: Any, op: str, name: str) -> None:
    a, b = operands(name, 2)
    form = FORMATS[name]
    actual = evaluate(f"{op}.{name} {{d}}, {{a}}, {{b}};", a, b, result=form.storage)
    expected = [
        finish(extreme(decode(int(x), form), decode(int(y), form), op == "max"), name)
        for x, y in zip(a, b, strict=True)
    ]
    check(actual, expected, name, [a, b])
    if name == "f64":
        return
    either = evaluate(f"{op}.NaN.{name} {{d}}, {{a}}, {{b}};", a, b, result=form.storage)
    nans = [
        NAN[name] if "nan" in (decode(int(x), form).special, decode(int(y), form).special) else w
        for x, y, w in zip(a, b, expected, strict=True)
    ]
    check(either, nans, name, [a, b])


COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b and a == a and b == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "equ": lambda a, b: a == b or a != a or b != b,
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: not a >= b,
    "leu": lambda a, b: not a > b,
    "gtu": lambda a, b: not a <= b,
    "geu": lambda a, b: not a < b,
    "num": lambda a, b: a == a and b == b,
    "nan": lambda a, b: a != a or b != b,
}


def as_float(bits: int, form: Format) -> float:
    n = decode(bits, form)
    return (
        math.nan
        if n.special == "nan"
        else math.copysign(math.inf, -1 if n.negative else 1)
        if n.special
        else float(n.value)
    )


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("comparison", list(COMPARISONS))
def test_setp(evaluate: Any, comparison: str, name: str) -> None:
    a, b = operands(name, 2)
    form = FORMATS[name]
    text = f"setp.{comparison}.{name} %p0|%p1, {{a}}, {{b}}; selp.u32 %t0, 1, 0, %p0; "
    text += "selp.u32 %t1, 2, 0, %p1; or.b32 {d}, %t0, %t1;"
    actual = evaluate(text, a, b, result=np.uint32)
    expected = [
        1 if COMPARISONS[comparison](as_float(int(x), form), as_float(int(y), form)) else 2
        for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(actual, expected)


APPROXIMATE: dict[
    str, tuple[Callable[[float], float], float, float]
] = {  # the instruction, the function, the relative error and the absolute one, as PTX documents them
    "rcp.approx.f32": (lambda x: 1 / x, 2**-23, 0.0),
    "sqrt.approx.f32": (math.sqrt, 2**-23, 0.0),
    "rsqrt.approx.f32": (lambda x: 1 / math.sqrt(x), 2**-22.9, 0.0),
    "ex2.approx.f32": (lambda x: 2.0**x, 2**-22, 0.0),
    "lg2.approx.f32": (math.log2, 2**-22, 2**-22),
    "sin.approx.f32": (math.sin, 0.0, 2**-20.5),
    "cos.approx.f32": (math.cos, 0.0, 2**-20.5),
    "tanh.approx.f32": (math.tanh, 2**-11, 0.0),
}


@pytest.mark.parametrize("name", list(APPROXIMATE))
def test_approximate(evaluate: Any, name: str) -> None:
    function, relative, absolute = APPROXIMATE[name]
    rng = np.random.default_rng(2)
    x = rng.uniform(-3.1, 3.1, 4000).astype(np.float32)
    if name.startswith(("lg2", "rsqrt", "sqrt")):
        x = np.abs(x) + np.float32(1e-6)
    if name.startswith("ex2"):
        x = np.concatenate([x * 40, np.arange(-126, 128, dtype=np.float32)])
    actual = evaluate(f"{name} {{d}}, {{a}};", x, result=np.float32)
    for value, have in zip(x.tolist(), actual.tolist(), strict=True):
        want = function(value)
        assert abs(have - want) <= abs(want) * relative + absolute, (value, have, want)


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("ex2.approx.f32", -math.inf, 0.0),
        ("ex2.approx.f32", math.inf, math.inf),
        ("ex2.approx.f32", -200.0, 0.0),
        ("ex2.approx.f32", 200.0, math.inf),
        ("ex2.approx.f32", -149.0, 2.0**-149),
        ("lg2.approx.f32", 0.0, -math.inf),
        ("lg2.approx.f32", math.inf, math.inf),
        ("rcp.approx.f32", -0.0, -math.inf),
        ("rcp.approx.f32", math.inf, 0.0),
        ("rsqrt.approx.f32", 0.0, math.inf),
        ("rsqrt.approx.f32", -0.0, -math.inf),
        ("sqrt.approx.f32", -0.0, -0.0),
        ("ex2.approx.ftz.f32", -130.0, 0.0),
        ("tanh.approx.f32", -math.inf, -1.0),
    ],
)
def test_approximate_at_the_ends(evaluate: Any, name: str, source: float, target: float) -> None:
    actual = evaluate(f"{name} {{d}}, {{a}};", np.array([source], np.float32), result=np.float32)[0]
    assert actual == np.float32(target)
    assert math.copysign(1, actual) == math.copysign(1, target)
