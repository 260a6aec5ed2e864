"""What the kernels of blocks.cu must give."""

import torch
from corpus import draw, sample, whole

NONE = torch.zeros(1, dtype=torch.int32)


@sample("device_calls", whole(300))
def device_calls(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + torch.arange(300) % 3 + x * 0.5


@sample("struct_calls", whole(200))
def struct_calls(x: torch.Tensor) -> torch.Tensor:
    other = x.flip(0)
    return (x - other).abs() + torch.arange(200) + torch.where(x <= other, 1, -1)


@sample("function_pointers", draw(200))
def function_pointers(x: torch.Tensor) -> torch.Tensor:
    which = torch.arange(200) % 3
    return torch.where(which == 0, -x, torch.where(which == 1, x * x, x + 3))


def _ring(x: list[float], i: int) -> float:
    ring = [x[(i + k) % len(x)] for k in range(16)]
    at, total = i, 0.0
    for k in range(10):
        at = (at * 5 + 3) & 15
        ring[at] += k
        total += ring[(at + i) & 15]
    return total


@sample("local_arrays", whole(200))
def local_arrays(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([_ring(x.tolist(), i) for i in range(200)])


@sample("named_barriers", whole(32 * 7, dtype=torch.int32))
def named_barriers(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).reshape(-1, 32).flip(1).flatten()


@sample("partial_barrier", whole(96, dtype=torch.int32))
def partial_barrier(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:64].flip(0) + 1, x[64:] - 1])


@sample("grid_sync", whole(1000))
def grid_sync(x: torch.Tensor) -> torch.Tensor:
    out = x.flip(0) * 2 + 1
    out[0] = out[-1]
    return out


@sample("relay", NONE)
def relay(like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    out = torch.arange(32) + 100 * torch.arange(6)[:, None]
    return out.flatten().int(), torch.tensor([2 ** (b + 1) - 1 for b in range(6)], dtype=torch.int32)


@sample("clocks", NONE)
def clocks(like: torch.Tensor) -> torch.Tensor:
    return torch.ones(64, dtype=torch.int32)


@sample("device_print", torch.tensor([2.5]), says="tag -7 word 2.50 1099511627776 z    42|ff  |%\n")
def device_print(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(32, dtype=torch.int32).repeat(2)
