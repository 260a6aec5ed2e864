"""What the kernels of reductions.cu must give."""

import torch
from corpus import draw, relative, sample, whole

ROWS = whole(5, 700)  # whole numbers: every order of adding gives the same sum
INTS = whole(400, low=-50, high=50, dtype=torch.int32, seed=3)


def _row_sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


tree_reduction = sample("tree_reduction", ROWS)(_row_sums)
shuffle_reduction = sample("shuffle_reduction", ROWS)(_row_sums)
tree_reduction_normal = sample("tree_reduction", draw(3, 1000), tag="normal", bound=relative(1e-5))(
    lambda x: x.double().sum(1)
)


# Three functions of 1 ulp each and a division, on sums of a few dozen steps.
@sample("online_softmax", draw(6, 100) * 4, bound=lambda expected: expected * 1e-5)
def online_softmax(x: torch.Tensor) -> torch.Tensor:
    return x.double().softmax(1)


def _running(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0).to(x.dtype)


block_scan = sample("block_scan", INTS)(_running)
look_back_scan = sample("look_back_scan", whole(1500, dtype=torch.int32, seed=4))(_running)


@sample("histogram", whole(3000, low=0, high=40, dtype=torch.int32), 40)
def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    return torch.bincount(x, minlength=bins).to(torch.int32)


@sample("last_block_sum", whole(5000))
def last_block_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum().reshape(1)


@sample("bitonic_sort", whole(512, low=-1000, high=1000, dtype=torch.int32))
def bitonic_sort(x: torch.Tensor) -> torch.Tensor:
    return x.sort().values


@sample("layer_norm", draw(4, 300), draw(300, seed=1), 1e-5, bound=lambda expected: 1e-5 + expected.abs() * 1e-5)
def layer_norm(x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x.double(), (300,), gain.double(), eps=eps)


@sample(
    "block_votes",
    torch.cat([whole(3, 96, low=-99, high=90, dtype=torch.int32), torch.full((1, 96), 99, dtype=torch.int32)]),
)
def block_votes(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x > 0).sum(1), (x > -100).all(1), (x > 90).any(1)], 1).to(torch.int32)
