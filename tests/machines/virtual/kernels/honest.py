"""What the kernels of honest.cu must give."""

import torch
from corpus import sample, whole

X = whole(128)


@sample("leave_before_barrier", whole(200))
def leave_before_barrier(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:128].flip(0), x[128:].flip(0)])


def _turned_sums(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, 56)).reshape(-1, 128).sum(0)


one_barrier_a_step = sample("one_barrier_a_step", whole(200))(lambda x: _turned_sums(x).flip(0))
past_the_end = sample("past_the_end", whole(200))(_turned_sums)


@sample("same_flag", torch.cat([X, X.clamp(max=3)]))
def same_flag(x: torch.Tensor) -> torch.Tensor:
    return (x.reshape(2, 128) > 3).any(1).float().repeat_interleave(128)


@sample("bytes_of_a_word", X)
def bytes_of_a_word(x: torch.Tensor) -> torch.Tensor:
    return x + 8 + x[1::2].repeat_interleave(2)


@sample("reused_shared", X)
def reused_shared(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount((x + 8).long() % 16, minlength=16).float().repeat(8)


in_place = sample("in_place", X)(lambda x: x * x + 1)
default_stream = sample("default_stream", X)(lambda x: x * x + 1)


@sample("partly_written", X)
def partly_written(x: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(128) % 2 == 0, x, torch.tensor(-1.0))


@sample("specialised_warps", X)
def specialised_warps(x: torch.Tensor) -> torch.Tensor:
    doubled = x[:64] * 2
    return torch.cat([doubled.flip(0), x[64:] + doubled])


@sample("published", whole(64 * 5))
def published(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(5, 64).sum(0)
