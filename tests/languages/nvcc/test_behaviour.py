"""Our tensors behave as torch's: the sweep files, run on tensors of the host and compared with torch itself."""

import pytest
import torch
from tests.languages.nvcc.conftest import candidate, kernel
from tests.languages.nvcc.host import Caller

from warpsmith.languages.nvcc import compile
from warpsmith.records import Language


@pytest.fixture(scope="module")
def tensors() -> Caller:
    made = compile(kernel("sweep_tensor.cu"))
    assert made.artifact is not None, made.result.detail
    return Caller(made.artifact)


@pytest.fixture(scope="module")
def module() -> Caller:
    made = compile(kernel("sweep_module.cu"))
    assert made.artifact is not None, made.result.detail
    return Caller(made.artifact)


def same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    assert len(found) == len(wanted)
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.dtype == other.dtype and one.shape == other.shape, place
        assert torch.equal(one, other), place


def test_questions(tensors: Caller) -> None:
    x = torch.randn(3, 5).t()
    (found,) = tensors.call("questions", x)
    assert found.tolist() == [5, 3, 1, 5, 15, 0], tensors.heard


def test_pointers_and_accessors(tensors: Caller) -> None:
    x = torch.randn(4, 6).t()
    same(tensors.call("pointers", x), [x.reshape(-1)])


def test_views_have_torchs_values_and_strides(tensors: Caller) -> None:
    x = torch.arange(24.0).view(2, 3, 4)
    wanted = [
        x.view(6, 4), x.view(-1), x.view(2, -1, 2), x.reshape(4, 6), x.transpose(0, 1),
        x.transpose(-1, -2).reshape(2, 12), x.permute(2, 0, 1), x.unsqueeze(0), x.unsqueeze(-1), x, x, x.flatten(),
        x.flatten(1), x.flatten(0, 1), x.select(1, 2), x[1], x[0].t(), x.narrow(2, 1, 2), x[:, :, 0:4:2], x[:, -2:3],
        x[0].unsqueeze(0).expand(5, 3, 4), x.as_strided((2, 2), (1, 4)), x.transpose(1, 2).contiguous(),
        x.permute(0, 2, 1).contiguous(), x, x.transpose(0, 2).reshape(2, 3, 4), x[1].expand(2, 3, 4),
        x.unsqueeze(0).contiguous(memory_format=torch.channels_last),
    ]  # fmt: skip
    found = tensors.call("views", x)
    assert isinstance(found, list), tensors.heard
    same(found, wanted)
    assert [one.stride() for one in found] == [one.stride() for one in wanted]


def test_views_of_strided_tensors(tensors: Caller) -> None:
    x = torch.arange(48.0).view(2, 3, 8)[:, :, :4]
    found = tensors.call("views", x)
    assert found == -3 and "use reshape" in tensors.heard[-1]  # view({6, 4}) is possible, view({-1}) is not


def test_factories(tensors: Caller) -> None:
    x = torch.arange(6.0).view(2, 3)
    wanted = [
        torch.full((2, 3), 4.0), torch.zeros(2, 3), torch.full((2, 3), 2.5), torch.zeros(2, 3, dtype=torch.float64),
        torch.zeros(3, dtype=torch.int64), torch.zeros(2, 3), torch.ones(2), torch.ones(2, 3, dtype=torch.bfloat16),
        torch.full((1, 2), 7, dtype=torch.int32), torch.full((2, 3), -1.5), torch.ones(2), torch.zeros(2, 2),
        torch.zeros(2, 3), torch.zeros((), dtype=torch.bool), torch.full((2, 3), 3.0),
    ]  # fmt: skip
    same(tensors.call("factories", x), wanted)


def test_conversions(tensors: Caller) -> None:
    x = torch.tensor([[0.0, 1.25, -2.75], [100.0, 3.0000001, 65.4]])
    kinds = ["float64", "float16", "bfloat16", "int32", "int64", "bool", None, "float32", "float32", "float64"]
    found = tensors.call("conversions", x)
    assert isinstance(found, list), tensors.heard
    for one, kind in zip(found, kinds, strict=False):
        if kind is not None:  # negative to unsigned is not defined in C++
            assert torch.equal(one, x.to(getattr(torch, kind))), kind
    same(found[10:], [x.t().to(torch.int16).float(), x, x, x.to(torch.int8), x.half()])


EDGES = [
    0.0,
    -0.0,
    1.0,
    65504.0,
    65519.99,
    65520.0,
    -1e9,
    6.1e-5,
    6.0e-5,
    5.96e-8,
    2.98e-8,
    2.9802322387695312e-08,
    3e-8,
]
EDGES += [1e-45, 3.3895e38, 3.4e38, float("inf"), float("-inf"), 1.00048828125, 1.00146484375, 1.00390625, 1.01171875]


@pytest.mark.parametrize("wide", [False, True])
def test_sixteen_bits_round_as_torch_rounds(wide: bool) -> None:
    """With CUDA's own 16-bit headers and with ours."""
    source = kernel("sweep_tensor.cu").source + ("\n// __half\n" if wide else "")
    made = compile(candidate(source))
    assert made.artifact is not None, made.result.detail
    drawn = torch.randint(-(2**31), 2**31 - 1, (4096,), dtype=torch.int32, generator=torch.Generator().manual_seed(3))
    x = torch.cat([torch.tensor(EDGES), drawn.view(torch.float32), torch.randn(4096) * 1e-5])
    found = Caller(made.artifact).call("sixteen", x)
    for one, kind in zip(found, (torch.float16, torch.bfloat16), strict=True):
        wanted, number = x.to(kind), ~x.isnan()
        assert torch.equal(one.view(torch.int16)[number], wanted.view(torch.int16)[number])
        assert one.float()[~number].isnan().all() and torch.equal(one.float()[number], wanted.float()[number])


def test_items(tensors: Caller) -> None:
    assert tensors.call("items", torch.tensor([[1.5, 2.25], [3.0, 4.75]])) == [1.5 + 2.25 + 3.0 + 4.0]


def test_every_kind_of_argument(module: Caller) -> None:
    x = torch.ones(2, 3)
    found = module.call("forward", x, x, x, 0.5, 0.25, 3, 4, True, [1, 2], [10], None, x, [x, x], [x], [x[0], x])
    assert isinstance(found, list), module.heard
    assert found[0].item() == 0.5 + 0.25 + 3 + 4 + 1 + 3 + 10 + 0 + 6 + 12 + 1 + 2 + 3


def test_every_kind_of_result(module: Caller) -> None:
    x, y = torch.arange(4.0), torch.arange(3.0)
    same(module.call("pair_of", x, [x, y]), [y, x])
    same(module.call("list_of", x), [x, x, x])
    same(module.call("tuple_of", x), [x, x])
    same(module.call("both", x), [x, x])
    first, absent, last = module.call("array_of", x)
    assert absent is None and torch.equal(first, x) and torch.equal(last, x)
    assert module.call("count", x, 2.0, 3.0) == [24]
    same(module.call("lambda", x, 2), [x.view(2, 2)])
    assert module.call("nothing", x) == [] and torch.equal(x, torch.full((4,), 3.0))


def test_a_refusal_reaches_the_caller(module: Caller) -> None:
    assert module.call("refuses", torch.ones(2, 3)) == -3
    assert "x must have 7 dimensions, has 2 of sizes [2, 3]" in module.heard[-1]
    assert module.call("throws", torch.ones(1)) == -3 and module.heard[-1] == "thrown on purpose"


def test_calls_that_do_not_fit(module: Caller) -> None:
    x = torch.ones(2)
    assert module.call("absent", x) == -1
    assert module.call("list_of") == -2 and module.call("list_of", 1.0) == -2 and module.call("list_of", x, x) == -2
    assert module.call("list_of", x, results=2) == -5


def test_the_table_says_what_the_file_says(module: Caller) -> None:
    made = compile(kernel("sweep_module.cu"))
    assert {entry.name: entry.text for entry in made.entries} == module.entries()
    assert module.library.warpsmith_abi() == 1


def test_plain_style() -> None:
    made = compile(kernel("plain.cu", Language.PLAIN))
    assert made.artifact is not None, made.result.detail
    caller, x, y = Caller(made.artifact), torch.arange(4.0), torch.zeros(4)
    same(caller.call("forward", x, None, [x, x], 2.0, 4, False, [5, 6, 7], y), [y])
    assert torch.equal(y, 2 * x)
    same(caller.call("forward", x, x, [x, x], 3, 4, False, [5, 6, 7], y), [y])
    assert torch.equal(y, 3 * x + 1)
    assert caller.call("forward", x, x, [x], 2.0, 4, False, [5, 6, 7], y) == -3
    assert caller.call("forward", x, x, [x, x], 2.0, 4, False, [5, 6, 7]) == -2
