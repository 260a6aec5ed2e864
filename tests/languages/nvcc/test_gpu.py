"""The same headers on a GPU: views, moves, conversions, accessors, tensor cores and TMA, compared with torch."""

from collections.abc import Callable

import pytest
import torch
from tests.languages.nvcc.conftest import kernel
from tests.languages.nvcc.host import Caller

from warpsmith.languages.nvcc import compile

pytestmark = pytest.mark.gpu


def load(name: str) -> Caller:
    made = compile(kernel(name))
    assert made.artifact is not None, made.result.detail
    return Caller(made.artifact)


@pytest.fixture(scope="module")
def tensors() -> Caller:
    return load("sweep_tensor.cu")


@pytest.fixture(scope="module")
def caller(request: pytest.FixtureRequest) -> Caller:
    """Of another file: compiled before a test has the GPU."""
    return load(request.param)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("caller", [name], indirect=True)


def results(caller: Caller, name: str, *arguments: object) -> list[torch.Tensor]:
    found = caller.call(name, *arguments)
    assert isinstance(found, list), (found, caller.heard)
    return found


@pytest.mark.parametrize("name", ["views", "factories"])
@pytest.mark.parametrize("shape", [(2, 3, 4)])
def test_device_and_host_agree(tensors: Caller, name: str, shape: tuple[int, ...]) -> None:
    x = torch.arange(24.0).view(shape)
    on_host, on_device = results(tensors, name, x), results(tensors, name, x.cuda())
    assert len(on_host) == len(on_device)
    for place, (one, other) in enumerate(zip(on_host, on_device, strict=True)):
        assert one.dtype == other.dtype and one.stride() == other.stride() and torch.equal(one, other), place


def test_conversions(tensors: Caller) -> None:
    x = torch.tensor([[0.0, 1.25, 2.75], [100.0, 3.0000001, 65.4]])
    found = results(tensors, "conversions", x.cuda())
    names = ["float64", "float16", "bfloat16", "int32", "int64", "bool", "uint8", "float32", "float32", "float64"]
    for one, name in zip(found, names, strict=False):
        assert torch.equal(one, x.to(getattr(torch, name))), name
    assert torch.equal(found[10], x.t().to(torch.int16).float()) and torch.equal(found[12], x)


def test_items(tensors: Caller) -> None:
    assert tensors.call("items", torch.tensor([[1.5, 2.25], [3.0, 4.75]]).cuda()) == [10.75]


SHAPES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x.t(),
    lambda x: x[:, ::2],
    lambda x: x[1:, 3:],
    lambda x: x.unsqueeze(0).expand(3, -1, -1),
    lambda x: x[:0],
]


@pytest.mark.parametrize("place", range(len(SHAPES)))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "float64"])
def test_contiguous_of_anything(tensors: Caller, place: int, dtype: str) -> None:
    x = SHAPES[place]((torch.randn(513, 130) * 50).to(getattr(torch, dtype)).cuda())
    (found,) = results(tensors, "forward", x)
    assert found.is_contiguous() and torch.equal(found, x.cpu())


@of("sweep_device.cu")
def test_accessors_and_sixteen_bit_types(caller: Caller) -> None:
    x = torch.randn(4, 32).cuda()
    index = torch.zeros(1, dtype=torch.int64).cuda()
    (found,) = results(caller, "checks", x, index)
    assert found.shape == (4, 32) and index.item() == 3


@of("habits.cu")
def test_a_sum_by_habit(caller: Caller) -> None:
    x = torch.randn(64, 256).cuda()
    (found,) = results(caller, "forward", x, None, 1e-5)
    assert abs(found.item() - x.double().sum().item()) < 1e-2


@of("sweep_cub.cu")
def test_cub(caller: Caller) -> None:
    x = torch.randn(7, 300).cuda()
    (found,) = results(caller, "forward", x)
    assert torch.allclose(found, x.cpu().sum(1), atol=1e-4)


@of("sweep_hardware.cu")
def test_tma_through_the_callers_map(caller: Caller) -> None:
    x = torch.arange(64.0).view(8, 8).cuda()
    (found,) = results(caller, "forward", x)
    halves = x.cpu().view(2, 32).sum(1)
    assert torch.equal(found.view(2, 32), (2 * halves + 1).unsqueeze(1).expand(2, 32))
