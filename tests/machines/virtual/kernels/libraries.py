"""What the kernels of libraries.cu must give."""

import torch
from corpus import sample, whole


@sample("cub_reduce", whole(500, dtype=torch.int32))
def cub_reduce(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, 12)).reshape(4, 128).sum(1).int()


@sample("cub_scan", whole(450, dtype=torch.int32))
def cub_scan(x: torch.Tensor) -> torch.Tensor:
    running = x.cumsum(0).int()
    return torch.cat([running, running[-1:]])


@sample("cuda_pipeline", whole(128 * 6))
def cuda_pipeline(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(6, 128).sum(0).flip(0)


@sample("group_copy", whole(3, 200))
def group_copy(x: torch.Tensor) -> torch.Tensor:
    return x.flip(1)
