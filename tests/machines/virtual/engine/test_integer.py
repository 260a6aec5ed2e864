"""Integer and bit instructions against Python's own integers."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

TYPES = {
    "u16": (16, False),
    "s16": (16, True),
    "u32": (32, False),
    "s32": (32, True),
    "u64": (64, False),
    "s64": (64, True),
}


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def values(bits: int, count: int, seed: int = 0) -> list[NDArray[Any]]:
    """All combinations of edge values, then random ones of every magnitude."""
    top = 1 << (bits - 1)
    chosen = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]
    if count == 3:
        chosen = chosen[::2]
    rng = np.random.default_rng(seed)
    columns = []
    for column in zip(*itertools.product(chosen, repeat=count), strict=True):
        extra = [
            int(v) >> int(s)
            for v, s in zip(rng.integers(0, 2 * top, 500, dtype=np.uint64), rng.integers(0, bits, 500), strict=True)
        ]
        columns.append(np.array([*column, *extra], f"u{bits // 8}"))
    return columns


def run(evaluate: Any, opcode: str, name: str, function: Callable[..., int], count: int, target: int = 0) -> None:
    bits, is_signed = TYPES[name]
    operands = values(bits, count)
    places = ", ".join(["{d}", "{a}", "{b}", "{c}"][: count + 1])
    width = target or bits
    actual = evaluate(f"{opcode}.{name} {places};", *operands, result=f"u{width // 8}")
    for row in range(len(actual)):
        arguments = [signed(int(o[row]), bits) if is_signed else int(o[row]) for o in operands]
        want = function(*arguments) % (1 << width)
        assert int(actual[row]) == want, (opcode, name, arguments, int(actual[row]), want)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("name", list(TYPES))
def test_arithmetic(evaluate: Any, name: str) -> None:
    bits, _ = TYPES[name]
    run(evaluate, "add", name, lambda a, b: a + b, 2)
    run(evaluate, "sub", name, lambda a, b: a - b, 2)
    run(evaluate, "mul.lo", name, lambda a, b: a * b, 2)
    run(evaluate, "mul.hi", name, lambda a, b: (a * b) >> bits, 2)
    run(evaluate, "mad.lo", name, lambda a, b, c: a * b + c, 3)
    run(evaluate, "mad.hi", name, lambda a, b, c: ((a * b) >> bits) + c, 3)
    run(evaluate, "min", name, min, 2)
    run(evaluate, "max", name, max, 2)
    run(evaluate, "sad", name, lambda a, b, c: c + abs(a - b), 3)


@pytest.mark.parametrize("name", list(TYPES))
def test_division(evaluate: Any, name: str) -> None:
    """By zero gives all ones, as hardware does; the most negative over -1 wraps."""
    run(evaluate, "div", name, lambda a, b: truncated(a, b) if b else -1, 2)
    run(evaluate, "rem", name, lambda a, b: a - b * truncated(a, b) if b else a, 2)


@pytest.mark.parametrize("name", ["s16", "s32", "s64"])
def test_sign(evaluate: Any, name: str) -> None:
    run(evaluate, "abs", name, abs, 1)
    run(evaluate, "neg", name, lambda a: -a, 1)


@pytest.mark.parametrize("name", ["u16", "s16", "u32", "s32"])
def test_wide(evaluate: Any, name: str) -> None:
    run(evaluate, "mul.wide", name, lambda a, b: a * b, 2, target=2 * TYPES[name][0])


def test_saturation(evaluate: Any) -> None:
    def clamp(v: int) -> int:
        return min(max(v, -(2**31)), 2**31 - 1)

    run(evaluate, "add.sat", "s32", lambda a, b: clamp(a + b), 2)
    run(evaluate, "sub.sat", "s32", lambda a, b: clamp(a - b), 2)


def test_24_bits(evaluate: Any) -> None:
    run(evaluate, "mul24.lo", "u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF), 2)
    run(evaluate, "mul24.lo", "s32", lambda a, b: signed(a, 24) * signed(b, 24), 2)
    run(evaluate, "mad24.hi", "s32", lambda a, b, c: (signed(a, 24) * signed(b, 24) >> 16) + c, 3)


@pytest.mark.parametrize("bits", [32, 64])
def test_carry(evaluate: Any, bits: int) -> None:
    """A sum of twice the width in two halves, and a difference."""
    a, b = values(bits, 2)
    name, reg = f"u{bits}", "%t" if bits == 32 else "%l"
    text = f"add.cc.{name} {reg}0, {{a}}, {{b}}; addc.{name} {{d}}, {{a}}, {{b}};"
    actual = evaluate(text, a, b, result=f"u{bits // 8}")
    for x, y, have in zip(a.tolist(), b.tolist(), actual.tolist(), strict=True):
        assert have == (x + y + (x + y >> bits)) % (1 << bits)
    text = f"sub.cc.{name} {reg}0, {{a}}, {{b}}; subc.{name} {{d}}, {{a}}, {{b}};"
    actual = evaluate(text, a, b, result=f"u{bits // 8}")
    for x, y, have in zip(a.tolist(), b.tolist(), actual.tolist(), strict=True):
        assert have == (x - y - (x < y)) % (1 << bits)
    text = f"mad.lo.cc.{name} {reg}0, {{a}}, {{b}}, {{a}}; madc.hi.{name} {{d}}, {{a}}, {{b}}, 0;"
    actual = evaluate(text, a, b, result=f"u{bits // 8}")
    for x, y, have in zip(a.tolist(), b.tolist(), actual.tolist(), strict=True):
        assert have == (x * y + x) >> bits


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic_and_shifts(evaluate: Any, bits: int) -> None:
    (a, b), size = values(bits, 2), f"u{bits // 8}"
    n = np.array([v % 80 for v in range(len(a))], np.uint32)
    full = (1 << bits) - 1
    cases: dict[str, Callable[[int, int], int]] = {
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
    }
    for op, function in cases.items():
        actual = evaluate(f"{op}.b{bits} {{d}}, {{a}}, {{b}};", a, b, result=size)
        assert actual.tolist() == [function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert evaluate(f"not.b{bits} {{d}}, {{a}};", a, result=size).tolist() == [x ^ full for x in a.tolist()]
    assert evaluate(f"cnot.b{bits} {{d}}, {{a}};", a, result=size).tolist() == [int(x == 0) for x in a.tolist()]
    pairs = list(zip(a.tolist(), n.tolist(), strict=True))
    assert evaluate(f"shl.b{bits} {{d}}, {{a}}, {{b}};", a, n, result=size).tolist() == [
        x << s & full if s < bits else 0 for x, s in pairs
    ]
    assert evaluate(f"shr.u{bits} {{d}}, {{a}}, {{b}};", a, n, result=size).tolist() == [x >> s for x, s in pairs]
    assert evaluate(f"shr.s{bits} {{d}}, {{a}}, {{b}};", a, n, result=size).tolist() == [
        signed(x, bits) >> s & full for x, s in pairs
    ]


def extracted(a: int, pos: int, length: int, bits: int, is_signed: bool) -> int:
    """The loop of the PTX manual."""
    sign = a >> min(pos + length - 1, bits - 1) & 1 if is_signed and length else 0
    return sum((a >> (pos + i) & 1 if i < length and pos + i < bits else sign) << i for i in range(bits))


def inserted(a: int, b: int, pos: int, length: int, bits: int) -> int:
    result = b
    for i in range(length):
        if pos + i < bits:
            result = result & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
    return result


@pytest.mark.parametrize("bits", [32, 64])
def test_fields(evaluate: Any, bits: int) -> None:
    rng = np.random.default_rng(1)
    count, size = 1500, f"u{bits // 8}"
    a, b = (rng.integers(0, 1 << bits, count, dtype=np.uint64).astype(size) for _ in range(2))
    pos, length = (
        rng.choice([0, 1, 5, 16, 31, 32, 33, 63, 64, 70, 255, 256 + 3], count).astype(np.uint32) for _ in range(2)
    )
    for is_signed in (False, True):
        actual = evaluate(
            f"bfe.{'s' if is_signed else 'u'}{bits} {{d}}, {{a}}, {{b}}, {{c}};", a, pos, length, result=size
        )
        want = [
            extracted(int(x), int(p) & 255, int(n) & 255, bits, is_signed)
            for x, p, n in zip(a, pos, length, strict=True)
        ]
        assert actual.tolist() == want
    actual = evaluate(f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};", a, b, pos, length, result=size)
    assert actual.tolist() == [
        inserted(int(x), int(y), int(p) & 255, int(n) & 255, bits) for x, y, p, n in zip(a, b, pos, length, strict=True)
    ]


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(evaluate: Any, bits: int) -> None:
    (a,), size = values(bits, 1), f"u{bits // 8}"
    assert evaluate(f"popc.b{bits} {{d}}, {{a}};", a, result="u4").tolist() == [x.bit_count() for x in a.tolist()]
    assert evaluate(f"clz.b{bits} {{d}}, {{a}};", a, result="u4").tolist() == [
        bits - x.bit_length() for x in a.tolist()
    ]
    assert evaluate(f"brev.b{bits} {{d}}, {{a}};", a, result=size).tolist() == [
        int(f"{x:0{bits}b}"[::-1], 2) for x in a.tolist()
    ]
    found = [(x.bit_length() - 1) % 2**32 for x in a.tolist()]
    assert evaluate(f"bfind.u{bits} {{d}}, {{a}};", a, result="u4").tolist() == found
    negative = [(~signed(x, bits) if signed(x, bits) < 0 else signed(x, bits)).bit_length() - 1 for x in a.tolist()]
    assert evaluate(f"bfind.s{bits} {{d}}, {{a}};", a, result="u4").tolist() == [v % 2**32 for v in negative]
    shift = [bits - 1 - v if v >= 0 else 2**32 - 1 for v in negative]
    assert evaluate(f"bfind.shiftamt.s{bits} {{d}}, {{a}};", a, result="u4").tolist() == shift


def permuted(a: int, b: int, selector: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for i in range(4):
        s = selector >> (4 * i) & 15
        byte = data[s & 7]
        result |= ((0xFF if byte & 0x80 else 0) if s & 8 else byte) << (8 * i)
    return result


PRMT_MODES = {
    "f4e": [0x3210, 0x4321, 0x5432, 0x6543],
    "b4e": [0x5670, 0x6701, 0x7012, 0x0123],
    "rc8": [0, 0x1111, 0x2222, 0x3333],
    "ecl": [0x3210, 0x3211, 0x3222, 0x3333],
    "ecr": [0x0000, 0x1110, 0x2210, 0x3210],
    "rc16": [0x1010, 0x3232, 0x1010, 0x3232],
}


def test_permute(evaluate: Any) -> None:
    rng = np.random.default_rng(2)
    a, b, c = (rng.integers(0, 2**32, 600, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    assert evaluate("prmt.b32 {d}, {a}, {b}, {c};", a, b, c, result="u4").tolist() == [permuted(*row) for row in rows]
    for mode, table in PRMT_MODES.items():
        actual = evaluate(f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};", a, b, c, result="u4")
        assert actual.tolist() == [permuted(x, y, table[z & 3]) for x, y, z in rows], mode


def test_lop3_and_funnel(evaluate: Any) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(0, 2**32, 300, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    for table in (0x80, 0xE8, 0x96, 0x1B, 0xFE):
        actual = evaluate(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", a, b, c, result="u4")
        want = [
            sum((table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | (z >> i & 1)) & 1) << i for i in range(32))
            for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
        ]
        assert actual.tolist() == want
    n = np.arange(300, dtype=np.uint32) % 70
    for side, mode in itertools.product(("l", "r"), ("wrap", "clamp")):
        actual = evaluate(f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", a, b, n, result="u4")
        for x, y, s, have in zip(a.tolist(), b.tolist(), n.tolist(), actual.tolist(), strict=True):
            k = s & 31 if mode == "wrap" else min(s, 32)
            whole = y << 32 | x
            assert have == ((whole << k >> 32) if side == "l" else (whole >> k)) & 0xFFFFFFFF


def test_dot_products(evaluate: Any) -> None:
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(0, 2**32, 300, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    for ta, tb in itertools.product(("u32", "s32"), repeat=2):
        actual = evaluate(f"dp4a.{ta}.{tb} {{d}}, {{a}}, {{b}}, {{c}};", a, b, c, result="u4")
        for x, y, z, have in zip(a.tolist(), b.tolist(), c.tolist(), actual.tolist(), strict=True):
            parts = [(x >> 8 * i & 255, y >> 8 * i & 255) for i in range(4)]
            total = z + sum(
                (signed(p, 8) if ta == "s32" else p) * (signed(q, 8) if tb == "s32" else q) for p, q in parts
            )
            assert have == total % 2**32


def test_integer_conversions(evaluate: Any) -> None:
    everything = {"u8": (8, False), "s8": (8, True), **TYPES}
    for (source, (sb, ss)), (target, (tb, ts)) in itertools.product(everything.items(), repeat=2):
        (a,) = values(max(sb, 16), 1)
        for sat in ("", ".sat"):
            actual = evaluate(f"cvt{sat}.{target}.{source} {{d}}, {{a}};", a, result=f"u{max(tb, 16) // 8}")
            low, high = (-(1 << (tb - 1)), (1 << (tb - 1)) - 1) if ts else (0, (1 << tb) - 1)
            for x, have in zip(a.tolist(), actual.tolist(), strict=True):
                v = signed(x, sb) if ss else x & ((1 << sb) - 1)
                r = min(max(v, low), high) if sat else (signed(v, tb) if ts else v & ((1 << tb) - 1))
                assert have == r % (1 << max(tb, 16)), (source, target, sat, x, have, r)


def test_selections(evaluate: Any) -> None:
    a, b = values(32, 2)
    c = np.roll(a, 3)
    actual = evaluate("slct.s32.s32 {d}, {a}, {b}, {c};", a, b, c, result="u4")
    assert actual.tolist() == [
        x if signed(z, 32) >= 0 else y for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    actual = evaluate("setp.lt.and.s32 %p0|%p1, {a}, {b}, 1; selp.b32 {d}, 5, 9, %p0;", a, b, result="u4")
    assert actual.tolist() == [
        5 if signed(x, 32) < signed(y, 32) else 9 for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    actual = evaluate("set.le.u32.u32 {d}, {a}, {b};", a, b, result="u4")
    assert actual.tolist() == [2**32 - 1 if x <= y else 0 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    actual = evaluate(
        "@!%p7 mov.u32 {d}, 4; setp.eq.u32 %p0, {a}, {b}; @%p0 mov.u32 {d}, 3; @!%p0 mov.u32 {d}, {a};",
        a,
        b,
        result="u4",
    )
    assert actual.tolist() == [3 if x == y else x for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_moves_of_halves(evaluate: Any) -> None:
    (a,) = values(32, 1)
    actual = evaluate("mov.b32 {{%h0, %h1}}, {a}; mov.b32 {d}, {{%h1, %h0}};", a, result="u4")
    assert actual.tolist() == [(x >> 16) | (x & 0xFFFF) << 16 for x in a.tolist()]
    (b,) = values(64, 1)
    actual = evaluate("mov.b64 {{%t0, %t1}}, {a}; mov.b64 {d}, {{%t1, %t0}};", b, result="u8")
    assert actual.tolist() == [(x >> 32) | (x & 0xFFFFFFFF) << 32 for x in b.tolist()]
