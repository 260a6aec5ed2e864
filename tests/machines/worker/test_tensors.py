"""torch's tensors across the border and back."""

import pytest
import torch

from warpsmith.base import UsageError
from warpsmith.machines.worker.tensors import to_raw, to_tensor, to_values
from warpsmith.records import Argument, ArgumentKind, Dtype, Role, Signature


@pytest.mark.parametrize("name", list(Dtype))
def test_every_element_type_comes_back(name: str) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    assert torch.equal(to_tensor(to_raw(tensor)).double(), tensor.double())


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(12.0)[2::3],
        torch.ones(1, 3).expand(4, 3),
        torch.tensor(2.5),
        torch.empty(0, 3),
    ],
)
def test_layout_comes_back_too(tensor: torch.Tensor) -> None:
    back = to_tensor(to_raw(tensor))
    assert back.stride() == tensor.stride()
    assert torch.equal(back, tensor)


def test_a_whole_number_for_a_float_becomes_one() -> None:
    signature = Signature(
        arguments=(Argument(name="eps", kind=ArgumentKind.FLOAT, role=Role.CONSTANT),), results=("y",)
    )
    (value,) = to_values([1], signature)
    assert isinstance(value, float)


def test_what_no_kernel_takes_is_refused() -> None:
    with pytest.raises(UsageError, match="complex64"):
        to_raw(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="str"):
        to_values(["text"])
