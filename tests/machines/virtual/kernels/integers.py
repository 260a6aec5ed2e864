"""What the kernels of integers.cu must give, by Python's integers."""

import torch
from corpus import sample

MASK = 0xFFFFFFFF


def _ints(count: int, seed: int) -> torch.Tensor:
    """Full words with the edges among them."""
    drawn = torch.randint(-(2**31), 2**31, (count,), generator=torch.Generator().manual_seed(seed))
    drawn[:6] = torch.tensor([0, 1, -1, 2**31 - 1, -(2**31), 0x00FF00FF])
    return drawn.roll(seed).to(torch.int32)


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _bytes(value: int) -> list[int]:
    return [_signed(value >> shift, 8) for shift in (0, 8, 16, 24)]


def _permute(x: int, y: int, selector: int) -> int:
    pool = [(y << 32 | x) >> (8 * k) & 0xFF for k in range(8)]
    return sum(pool[selector >> (4 * k) & 7] << (8 * k) for k in range(4))


def _bit_row(i: int, a: int, b: int) -> list[int]:
    x, y = a & MASK, b & MASK
    shift = y & 31
    return [
        x.bit_count(),
        32 - x.bit_length(),
        int(f"{x:032b}"[::-1], 2),
        (x & -x).bit_length(),
        ((y << 32 | x) << shift) >> 32,
        (y << 32 | x) >> shift,
        _permute(x, y, 0x7215),
        (x * y) >> 32,
        (a * b) >> 32,
        (x & 0xFFFFFF) * (y & 0xFFFFFF),
        sum(p * q for p, q in zip(_bytes(x), _bytes(y), strict=True)) + i,
        (x << 32 | y).bit_count(),
    ]


def _rows(rows: list[list[int]], bits: int = 32) -> torch.Tensor:
    dtype = {16: torch.int16, 32: torch.int32, 64: torch.int64}[bits]
    return torch.tensor([[_signed(value, bits) for value in row] for row in rows], dtype=dtype)


@sample("bit_operations", _ints(300, 1), _ints(300, 2))
def bit_operations(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _rows([_bit_row(i, *pair) for i, pair in enumerate(zip(a.tolist(), b.tolist(), strict=True))])


def _divide(a: int, b: int) -> int:
    """Towards zero, as C++ divides."""
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _arithmetic_row(x: int, y: int) -> list[int]:
    u, v = x & MASK, y & MASK
    product, shifted = x * y, u * v >> 3
    return [
        _divide(x, 7),
        x - 10 * _divide(x, 10),
        u // v,
        u % v,
        product,
        shifted,
        (min(x, y) & MASK) ^ max(u, v),
        _signed(abs(x >> 1) + _signed(x & ~y | 5)),
        abs(x - y) + 3 & MASK,
        x + y >> 1,
        product * (shifted - 2**59) >> 64,
        _divide(product, y - 2**33),
    ]


@sample("integer_arithmetic", _ints(300, 3), _ints(300, 4))
def integer_arithmetic(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _rows([_arithmetic_row(x, y | 1) for x, y in zip(a.tolist(), b.tolist(), strict=True)], 64)


def _shift_row(x: int, amount: int) -> list[int]:
    u, top = x & MASK, min(amount, 32)
    field = x >> min(amount, 31)  # beyond the word a field repeats its sign
    return [u << top, u >> top, x >> min(amount, 31), _signed(field << 25) >> 25]


@sample("shifts", _ints(64, 5))
def shifts(a: torch.Tensor) -> torch.Tensor:
    return _rows([_shift_row(x, i) for i, x in enumerate(a.tolist())])


def _floats() -> torch.Tensor:
    edges = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e10, -1e10, 2147483520.0, -2147483648.0, 4294967040.0]
    edges += [float("inf"), -float("inf"), 1e-40, 0.99999994, -0.99999994]
    drawn = torch.randn(200, generator=torch.Generator().manual_seed(6)) * 1000
    return torch.cat([torch.tensor(edges), drawn])


@sample("conversions", _floats())
def conversions(x: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    low, high = float(-(2**31)), float(2**31 - 1)
    turned = [wide.round(), wide.trunc(), wide.ceil(), wide.floor()]
    columns = [value.clamp(low, high).long() for value in turned]
    columns.append(wide.trunc().clamp(0, float(MASK)).long())
    columns.append(torch.tensor([_signed(value, 8) for value in columns[1].tolist()]))
    bits = x.view(torch.int32)
    columns += [bits.long(), bits.to(torch.float32).view(torch.int32).long()]
    return _rows(torch.stack(columns, 1).tolist())


@sample(
    "small_integers",
    torch.randint(0, 256, (200,), generator=torch.Generator().manual_seed(7)).to(torch.uint8),
    torch.randint(-(2**15), 2**15, (200,), generator=torch.Generator().manual_seed(8)).to(torch.int16),
)
def small_integers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    values = zip(a.tolist(), b.tolist(), reversed(b.tolist()), strict=True)
    return _rows([[p * 3 - q + (r >> 2) for p, q, r in values]], 16)[0]
