"""What the kernel of plain.cu must give: any row stride, a bias or none."""

import torch
from corpus import sample, whole

WIDE = whole(5, 100)


@sample("forward", WIDE[:, 10:80], whole(70, seed=1), 2.0, torch.zeros(5, 70), tag="plain")
def plain_rows(x: torch.Tensor, bias: torch.Tensor, scale: float, out: torch.Tensor) -> torch.Tensor:
    return x * scale + bias


@sample("forward", WIDE, None, -1.0, torch.zeros(5, 100), tag="plain-without-bias")
def plain_rows_without_bias(x: torch.Tensor, bias: None, scale: float, out: torch.Tensor) -> torch.Tensor:
    return x * scale + 0.0
