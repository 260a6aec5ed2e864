"""How foreign code is run: on the CPU, and in float64 for its reference."""

import torch
from torch import nn

from warpsmith.tasks.inspection.modes import cast_to_float64, run_on_device


def test_code_written_for_a_gpu_runs_on_the_cpu() -> None:
    with run_on_device():
        layer = nn.Linear(3, 2, device="cuda")
        out = layer(torch.ones(1, 3, device=torch.device("cuda:1"))).cuda()
    assert out.device.type == "cpu"


def test_tensors_made_on_the_way_are_where_the_arguments_are() -> None:
    with run_on_device(torch.device("meta")):
        assert torch.zeros(3).device.type == "meta"
        assert torch.zeros(3, device="cuda").device.type == "meta"


def test_a_cast_inside_does_not_narrow_the_reference() -> None:
    x = torch.full((4,), 1 + 2.0**-40, dtype=torch.float64)
    with cast_to_float64():
        found = (x.float() + torch.zeros(4) + torch.ones(4, dtype=torch.float32)).to(torch.bfloat16)
    assert found.dtype is torch.float64
    assert torch.equal(found, x + 1)
    assert torch.get_default_dtype() is torch.float32
