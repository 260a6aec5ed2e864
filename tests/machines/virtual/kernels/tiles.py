"""What the kernels of tiles.cu must give. Whole numbers make every order of a sum exact."""

import torch
from corpus import draw, relative, sample, whole

LEFT, RIGHT = whole(37, 50), whole(50, 41, seed=1)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


tiled_matmul = sample("tiled_matmul", LEFT, RIGHT)(_product)
tiled_matmul_normal = sample("tiled_matmul", draw(20, 100), draw(100, 20), tag="normal", bound=relative(1e-5))(
    lambda a, b: a.double() @ b.double()
)
register_matmul = sample("register_matmul", whole(64, 40), whole(40, 32, seed=2))(_product)
split_k_atomics = sample("split_k_atomics", LEFT, RIGHT)(_product)
split_k_last_block = sample("split_k_last_block", LEFT, RIGHT)(_product)


@sample("padded_transpose", draw(45, 70))
def padded_transpose(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


@sample("stencil_1d", whole(300))
def stencil_1d(x: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(x, (2, 2))
    return torch.stack([padded[d : d + 300] * (d + 1) for d in range(5)]).sum(0)


@sample("stencil_2d", whole(20, 33))
def stencil_2d(x: torch.Tensor) -> torch.Tensor:
    around = torch.nn.functional.pad(x, (1, 1, 1, 1))
    return around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:] - 4 * x


@sample("double_buffered", whole(3, 256 * 5))
def double_buffered(x: torch.Tensor) -> torch.Tensor:
    tiles = x.reshape(3, 5, 256)
    places = (torch.arange(64)[:, None] * 5 + torch.arange(4) * 64) % 256
    return tiles[:, :, places].sum((1, 3))


@sample("pipeline_primitives", whole(128 * 5 + 50))
def pipeline_primitives(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, 78)).reshape(6, 128).sum(0).flip(0)


@sample("large_shared", whole(16384, low=-1000, high=1000, dtype=torch.int32))
def large_shared(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out[torch.arange(16384) * 7 % 16384] = x
    return out
