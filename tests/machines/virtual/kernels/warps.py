"""What the kernels of warps.cu must give, lane by lane."""

import struct
from functools import reduce

import torch
from corpus import sample, whole

SMALL = whole(64, low=-5, high=12, dtype=torch.int32)
WARP = whole(32, low=0, high=100, dtype=torch.int32, seed=1)


def _bits(values: list[bool]) -> int:
    return sum(1 << lane for lane, value in enumerate(values) if value)


def _word(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _vote_row(warp: list[int], lane: int) -> list[int]:
    v = warp[lane]
    alike = len({value >> 8 for value in warp}) == 1
    row = [
        _bits([value > 0 for value in warp]),
        any(value == 3 for value in warp),
        all(value < 90 for value in warp),
        _bits([value == v for value in warp]),
        0xFFFFFFFF if alike else 0,
        alike,
        sum(warp),
        min(warp),
        max(value & 0xFFFFFFFF for value in warp),
        reduce(lambda a, b: a & b, warp),
        reduce(lambda a, b: a | b, warp),
        reduce(lambda a, b: a ^ b, warp),
    ]
    return [_word(int(value)) for value in row]


@sample("votes", torch.cat([SMALL, SMALL.abs()]))
def votes(x: torch.Tensor) -> torch.Tensor:
    warps = x.reshape(-1, 32).tolist()
    return torch.tensor([_vote_row(warp, lane) for warp in warps for lane in range(32)], dtype=torch.int32)


def _shuffle_row(v: list[int], lane: int) -> list[int]:
    low, high = struct.unpack("<ii", struct.pack("<d", v[lane ^ 1] * 1e6 + 0.5))
    return [
        v[5],
        v[lane & ~7 | lane * 3 % 8],
        v[lane - 3] if lane >= 3 else v[lane],
        v[lane + 7] if lane + 7 < 32 else v[lane],
        v[lane ^ 11],
        v[lane - 2] if lane % 4 >= 2 else v[lane],
        low,
        high,
    ]


@sample("shuffles", WARP)
def shuffles(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([_shuffle_row(x.tolist(), lane) for lane in range(32)], dtype=torch.int32)


@sample("masked_shuffles", WARP)
def masked_shuffles(x: torch.Tensor) -> torch.Tensor:
    even, odd = int(x[0::2].max()), int(x[1::2].sum())
    values = torch.tensor([odd if lane % 2 else even for lane in range(32)], dtype=torch.int32)
    return (values * 100 + (values > 0).sum().int()).reshape(32, 1)


def _tile_answers(x: list[int], size: int) -> list[int]:
    answers = []
    for i in range(len(x)):
        start = i // size * size
        tile = x[start : start + size]
        rank, group = i - start, i % 64 // size  # a block has 64 threads
        terms = sum(tile) + 3 * max(tile) + 5 * sum(tile[:rank]) + 7 * tile[0] + 11 * rank + 13 * group
        answers.append(terms + any(value > 50 for value in tile))
    return answers


@sample("cooperative_tiles", whole(128, low=-20, high=60, dtype=torch.int32, seed=2))
def cooperative_tiles(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([_tile_answers(x.tolist(), size) for size in (32, 16, 4)], dtype=torch.int32)


@sample("coalesced_filter", whole(300, dtype=torch.int32, seed=3), order_free=True)
def coalesced_filter(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    kept = x[x > 0]
    return torch.cat([kept, torch.zeros(300 - len(kept), dtype=torch.int32)]), torch.tensor(
        [len(kept)], dtype=torch.int32
    )


def _steps(v: int) -> int:
    steps = 0
    while v != 1 and steps < 500:
        v = 3 * v + 1 if v & 1 else v // 2
        steps += v % 16 != 9
    return steps


@sample("divergent_loops", whole(200, low=1, high=1000, dtype=torch.int32, seed=4))
def divergent_loops(x: torch.Tensor) -> torch.Tensor:
    steps = torch.tensor([_steps(v) for v in x.tolist()], dtype=torch.int32)
    longest = torch.nn.functional.pad(steps, (0, 24)).reshape(-1, 32).amax(1).repeat_interleave(32)[:200]
    return steps * 1000 + longest


def _early(i: int, v: int) -> int:
    if i % 96 // 32 == 1:
        return -1
    if v < 0:
        return -2
    for k in range(8):
        if v > 1000:
            return -3 - k
        v = v * 2 + 1
    return v


@sample("early_exit", whole(250, low=-20, high=60, dtype=torch.int32, seed=5))
def early_exit(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([_early(i, v) for i, v in enumerate(x.tolist())], dtype=torch.int32)


@sample("warp_scan", whole(128))
def warp_scan(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, 32).cumsum(1).flatten()


@sample("special_registers", torch.zeros(1, dtype=torch.int32))
def special_registers(like: torch.Tensor) -> torch.Tensor:
    rows = []
    for block in range(2):
        for thread in range(40):
            lane = thread % 32
            below = (1 << lane) - 1
            rows.append([lane, below, _word(~below), 32, 40 * 1000 + 2, thread * 1000 + block])
    return torch.tensor(rows, dtype=torch.int32)
