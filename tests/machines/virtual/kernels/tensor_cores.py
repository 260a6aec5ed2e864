"""What the kernels of tensor_cores.cu must give: exact on small whole numbers, near on others."""

import torch
from corpus import draw, relative, sample, whole


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).float()


def _half(*shape: int, seed: int = 0) -> torch.Tensor:
    return whole(*shape, seed=seed, dtype=torch.float16)


def _bfloat(*shape: int, seed: int = 0) -> torch.Tensor:
    return whole(*shape, seed=seed, dtype=torch.bfloat16)


# Seven bits a factor: more than bfloat16's eight would hold of a product, well within float32's sum.
mma_f16 = sample("mma_f16", _half(32, 48), _half(48, 16, seed=1))(_product)
mma_bf16 = sample("mma_bf16", _bfloat(32, 48), _bfloat(48, 16, seed=1))(_product)
mma_tf32 = sample("mma_tf32", whole(32, 40), whole(40, 16, seed=1))(_product)
wmma_f16 = sample("wmma_f16", _half(32, 48), _half(48, 32, seed=2))(_product)
wmma_bf16 = sample("wmma_bf16", _bfloat(32, 48), _bfloat(48, 32, seed=2))(_product)
wmma_tf32 = sample("wmma_tf32", whole(32, 40), whole(40, 32, seed=2))(_product)

# The order and the width of a tensor core's sum are NVIDIA's own; the products are exact.
mma_f16_normal = sample(
    "mma_f16", draw(16, 64, dtype=torch.float16), draw(64, 8, dtype=torch.float16), tag="normal", bound=relative(1e-5)
)(lambda a, b: a.double() @ b.double())


def _to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Ten bits of fraction, halves away from zero."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@sample("mma_tf32", draw(16, 64), draw(64, 8, seed=1), tag="rounded", bound=relative(1e-5))
def mma_tf32_rounded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _to_tf32(a).double() @ _to_tf32(b).double()


@sample("mma_half_sum", whole(16, 16, dtype=torch.float16), whole(8, 16, dtype=torch.float16, seed=3))
def mma_half_sum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double().t()).half()


def _dealt(tile: torch.Tensor) -> list[torch.Tensor]:
    """The four 8 x 8 parts as lanes hold them: lane l has the pair at row l / 4, columns 2 (l % 4)."""
    parts = [tile[:8, :8], tile[8:, :8], tile[:8, 8:], tile[8:, 8:]]
    return [part.contiguous().view(torch.int32).flatten() for part in parts]


@sample("ldmatrix_lanes", whole(16, 16, low=-3000, high=3000, dtype=torch.int16))
def ldmatrix_lanes(x: torch.Tensor) -> torch.Tensor:
    parts = [x[:8, :8], x[8:, :8], x[:8, 8:], x[8:, 8:]]
    turned = [part.t().contiguous().view(torch.int32).flatten() for part in parts]
    return torch.stack([*_dealt(x), *turned])
