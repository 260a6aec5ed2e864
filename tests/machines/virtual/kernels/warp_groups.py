"""What the kernels of warp_groups.cu must give: products of small whole numbers are exact in every order."""

import torch
from corpus import Sample, sample, whole

HALF, BRAIN = torch.float16, torch.bfloat16


def _product(entry: str, k: int, dtype: torch.dtype, trans_a: bool = False, trans_b: bool = False) -> Sample:
    """A is 64 x k and B is 32 x k (its columns), or turned where they lie along m or n."""
    a, b = whole(64, k, dtype=dtype), whole(32, k, seed=1, dtype=dtype)
    expected = (a.double() @ b.double().t()).float()
    given = (a.t().contiguous() if trans_a else a, b.t().contiguous() if trans_b else b)
    return Sample(entry, given, (expected,))


wgmma_plain = _product("wgmma_plain", 64, HALF)
wgmma_32 = _product("wgmma_32", 64, BRAIN)
wgmma_64 = _product("wgmma_64", 64, HALF)
wgmma_128 = _product("wgmma_128", 64, BRAIN)
wgmma_tf32 = _product("wgmma_tf32", 32, torch.float32)
wgmma_mn_plain = _product("wgmma_mn_plain", 32, HALF, True, True)
wgmma_mn_32 = _product("wgmma_mn_32", 32, HALF, True, True)
wgmma_mn_64 = _product("wgmma_mn_64", 48, BRAIN, True, True)
wgmma_mixed_128 = _product("wgmma_mixed_128", 64, BRAIN, True, False)


@sample("wgmma_registers", whole(64, 16, dtype=HALF), whole(8, 16, seed=1, dtype=HALF))
def wgmma_registers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (1 - a.double() @ b.double().t()).half()


def _boxes(x: torch.Tensor, a: list[int], b: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Zeros outside; what is stored lies at the other corner, and only inside. No box may be stored before a tensor."""
    padded = torch.nn.functional.pad(x, (32, 32, 32, 32, 32, 32))
    seen = padded[a[2] + 32 : a[2] + 36, a[1] + 32 : a[1] + 40, a[0] + 32 : a[0] + 48]
    room = torch.zeros_like(padded)
    room[b[2] + 32 : b[2] + 36, b[1] + 32 : b[1] + 40, b[0] + 32 : b[0] + 48] = seen
    return seen, room[32:-32, 32:-32, 32:-32]


_x = whole(6, 20, 28)
tensor_boxes = sample("tensor_boxes", _x, [4, 3, 1], [8, 4, 1])(_boxes)
tensor_boxes_over = sample("tensor_boxes", _x, [16, 15, 4], [20, 16, 4], tag="over")(_boxes)
tensor_boxes_before = sample("tensor_boxes", _x, [-4, -2, -1], [0, 1, 1], tag="before")(_boxes)


@sample("tensor_pipeline", whole(64, 232, dtype=BRAIN), whole(32, 232, seed=1, dtype=BRAIN))
def tensor_pipeline(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x.double() @ y.double().t()).float()


@sample("tensor_multicast", whole(32, 32))
def tensor_multicast(x: torch.Tensor) -> torch.Tensor:
    weighted = (x.reshape(4, 256) * torch.arange(1.0, 5).unsqueeze(1)).sum(0)
    return weighted.expand(4, 256)
