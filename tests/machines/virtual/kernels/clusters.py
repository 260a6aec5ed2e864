"""What the kernels of clusters.cu must give."""

import torch
from corpus import sample, whole


@sample("cluster_ranks", torch.zeros(1))
def cluster_ranks(x: torch.Tensor) -> torch.Tensor:
    blocks = [(bx, by) for by in range(6) for bx in range(4)]
    rows = [[bx % 2, by % 3, 2, 3, by % 3 * 2 + bx % 2, 6, bx // 2, by // 3, 2, 2] for bx, by in blocks]
    return torch.tensor(rows, dtype=torch.int32).reshape(6, 4, 10)


@sample("cluster_push", whole(16 * 128))
def cluster_push(x: torch.Tensor) -> torch.Tensor:
    groups = x.reshape(2, 1024)
    return (groups - groups.sum(1, keepdim=True)).flatten()


@sample("cluster_histogram", whole(5000, low=0, high=256, dtype=torch.int32))
def cluster_histogram(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount(x, minlength=256).int()


@sample("cluster_neighbours", whole(8, 64))
def cluster_neighbours(x: torch.Tensor) -> torch.Tensor:
    groups = x.reshape(2, 4, 64)
    return torch.stack([groups.roll(-1, 1).flip(2).reshape(8, 64), -x.flip(1)])
