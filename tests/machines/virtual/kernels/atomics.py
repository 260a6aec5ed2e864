"""What the kernels of atomics.cu must give: what no order of the threads changes."""

from functools import reduce

import torch
from corpus import sample, whole

WORDS = torch.randint(-(2**31), 2**31, (90,), generator=torch.Generator().manual_seed(1)).to(torch.int32)
START = torch.tensor([5, 5, 100, -100, -1, 7, -1, 0, 0, 3, 4, 0, 0, 0], dtype=torch.int32)


def _word(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _turned(start: int, steps: int, up: bool) -> int:
    for _ in range(steps):
        higher, lower = (start + 1) % 10, (start - 1) % 10
        start = higher if up else lower
    return start


@sample("integer_atomics", WORDS, START)
def integer_atomics(x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    v, s = x.tolist(), start.tolist()
    unsigned = [value & 0xFFFFFFFF for value in v]
    after = [
        s[0] + sum(v),
        s[1] - sum(v),
        min(s[2], *v),
        max(s[3], *v),
        min(s[4] & 0xFFFFFFFF, *unsigned),
        max(s[5], *unsigned),
        reduce(lambda a, b: a & b, [value | 0x0FF00000 for value in v], s[6]),
        reduce(lambda a, b: a | b, [value & 0x00F0F0F0 for value in v], s[7]),
        reduce(lambda a, b: a ^ b, v, s[8]),
        _turned(s[9], 90, True),
        _turned(s[10], 90, False),
        45,
        45,
        180,
    ]
    return torch.tensor([_word(value) for value in after], dtype=torch.int32)


@sample("wide_atomics", torch.randint(-(2**62), 2**62, (100,), generator=torch.Generator().manual_seed(2)))
def wide_atomics(x: torch.Tensor) -> torch.Tensor:
    v = x.tolist()
    either = reduce(lambda a, b: a | b, v)
    odd = reduce(lambda a, b: a ^ b, v)
    return torch.tensor([_word(sum(v), 64), min(0, *v), max(0, *v), 0, either, odd, 300])


@sample("float_atomics", whole(100))
def float_atomics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    total = x.sum()
    return (
        torch.stack([total, total * 2]),
        (total.double() + 50).reshape(1),
        torch.stack([total, torch.tensor(100.0)]).half(),
        torch.tensor([100.0, -100.0]).bfloat16(),
    )


@sample("atomic_results", whole(150))
def atomic_results(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ones = torch.ones(150, dtype=torch.int32)
    return ones, torch.tensor([150], dtype=torch.int32), torch.tensor([3], dtype=torch.int32), x.max().reshape(1)


@sample("spin_lock", torch.zeros(1, dtype=torch.int32))
def spin_lock(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([8, (3**8 - 1) // 2], dtype=torch.int32)


@sample("vector_atomics", whole(100))
def vector_atomics(x: torch.Tensor) -> torch.Tensor:
    total, count = x.sum(), torch.tensor(100.0)
    return torch.stack([total, 2 * total, torch.tensor(0.0), torch.tensor(0.0), total, count, total, count])
