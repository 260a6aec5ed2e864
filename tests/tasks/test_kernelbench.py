"""KernelBench problems, in the form of theirs."""

from pathlib import Path

import pytest
import torch

from warpsmith.base import UsageError
from warpsmith.records import ArgumentKind, Direction, Family, Group, Init, Role, Trial
from warpsmith.tasks.formats.foreign import ForeignProgram
from warpsmith.tasks.formats.kernelbench import build_model, kernelbench
from warpsmith.tasks.reference.program import problem

FILES = Path(__file__).parent.parent / "foreign" / "kernelbench"
HEAD = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n"


@pytest.fixture(scope="module")
def normed() -> ForeignProgram:
    return kernelbench(FILES / "2_Linear_norm_gelu.py")


def made(folder: Path, body: str) -> ForeignProgram:
    path = folder / "problem.py"
    path.write_text(HEAD + body)
    return kernelbench(path)


def test_inputs_then_parameters_then_buffers(normed: ForeignProgram) -> None:
    found = [(a.name, a.role) for a in normed.task.forward.arguments]
    assert found == [
        ("x", Role.INPUT),
        ("linear_weight", Role.PARAMETER),
        ("linear_bias", Role.PARAMETER),
        ("norm_weight", Role.PARAMETER),
        ("norm_bias", Role.PARAMETER),
        ("offset", Role.FIXED),  # a tensor kept as a plain attribute
        ("norm_running_mean", Role.FIXED),
        ("norm_running_var", Role.FIXED),
        ("norm_num_batches_tracked", Role.FIXED),
    ]


def test_backward_gives_the_gradients_of_inputs_and_parameters(normed: ForeignProgram) -> None:
    signature = normed.task.signature(Direction.BACKWARD)
    assert signature.arguments[0].name == "grad_out"
    assert signature.results == (
        "grad_x",
        "grad_linear_weight",
        "grad_linear_bias",
        "grad_norm_weight",
        "grad_norm_bias",
    )


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("path", sorted(FILES.glob("*.py")), ids=lambda path: path.stem)
def test_the_reference_is_float64_and_torch_agrees(path: Path, direction: Direction) -> None:
    program = kernelbench(path)
    case = program.task.group(Group.DEV)[0]
    found = problem(program, direction, Trial(case=case, seed=5))
    for native, expected in zip(found.native, found.expected, strict=True):
        assert (native.dtype, expected.dtype) == (torch.float32, torch.float64)
        torch.testing.assert_close(native.double(), expected, rtol=1e-3, atol=1e-4)


def test_a_batch_norm_in_train_mode_leaves_its_buffers_alone(normed: ForeignProgram) -> None:
    arguments = normed.arguments(Trial(case=normed.task.cases[0], seed=1))
    mean = arguments[6]
    assert isinstance(mean, torch.Tensor)
    before = mean.clone()
    normed.forward(arguments)
    assert torch.equal(mean, before)


def test_a_function_that_writes_its_input_works_on_a_copy() -> None:
    program = kernelbench(FILES / "3_Pair_of_results.py")
    arguments = program.arguments(Trial(case=program.task.cases[0], seed=1))
    first = program.forward(arguments)
    assert isinstance(arguments[0], torch.Tensor)
    assert bool((arguments[0] < 0).any())  # relu_ has not touched it
    assert all(torch.equal(a, b) for a, b in zip(first, program.forward(arguments), strict=True))


def test_nested_results_are_laid_flat_and_tuples_stay_tuples() -> None:
    task = kernelbench(FILES / "3_Pair_of_results.py").task
    assert task.forward.results == ("out_0", "out_1", "out_2")
    assert [a.kind for a in task.forward.arguments[:3]] == [ArgumentKind.TENSOR, ArgumentKind.TENSORS, ArgumentKind.INT]
    assert task.signature(Direction.BACKWARD).results[1:3] == ("grad_states_0", "grad_states_1")


def test_sizes_are_the_numbers_that_get_inputs_reads_and_smoke_cuts_them() -> None:
    task = kernelbench(FILES / "1_Row_scale.py").task
    assert task.group(Group.DEV)[0].axes == {"rows": 256, "cols": 96}
    assert task.group(Group.SMOKE)[0].axes == {"rows": 32, "cols": 32}


def test_the_seed_decides_everything_and_parameters_are_not_the_inputs(normed: ForeignProgram) -> None:
    case = normed.task.cases[0]
    one, again, other = (normed.arguments(Trial(case=case, seed=seed)) for seed in (7, 7, 8))
    for a, b, c in zip(one[:2], again[:2], other[:2], strict=True):
        assert isinstance(a, torch.Tensor)
        assert isinstance(b, torch.Tensor)
        assert isinstance(c, torch.Tensor)
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_a_family_replaces_inputs_and_an_init_scales_parameters(normed: ForeignProgram) -> None:
    case = normed.task.cases[0]
    plain = normed.arguments(Trial(case=case, seed=7))
    styled = normed.arguments(Trial(case=case, seed=7, family=Family.CONSTANT, init=Init.WIDE))
    assert isinstance(styled[0], torch.Tensor)
    assert isinstance(styled[1], torch.Tensor)
    assert isinstance(plain[1], torch.Tensor)
    assert styled[0].unique().numel() == 1
    assert torch.equal(styled[1], plain[1] * 4)


def test_init_inputs_in_the_older_form() -> None:
    assert build_model(lambda a, b=0: (a, b), [[1], {"b": 2}]) == (1, 2)
    assert build_model(lambda a, b: (a, b), [1, 2]) == (1, 2)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    def forward(self, x): return x\n", "no 'get_inputs' in it"),
        ("    def forward(self, x): return x\ndef get_inputs(): return []\n", "its inputs are empty"),
        ("    def forward(self, x): return {'y': x}\ndef get_inputs(): return [torch.rand(2)]\n", "returns a dict"),
        ("    def forward(self, x): return ()\ndef get_inputs(): return [torch.rand(2)]\n", "returns nothing"),
        (
            "    def forward(self, x): return nn.functional.dropout(x)\ndef get_inputs(): return [torch.rand(64)]\n",
            "two forwards on the same arguments differ: it draws random numbers",
        ),
        (
            "    n = 0\n    def forward(self, x):\n        self.n += 1\n        return x * self.n\n"
            "def get_inputs(): return [torch.rand(4)]\n",
            "it keeps state between calls",
        ),
        (
            "    def forward(self, x, how): return x\ndef get_inputs(): return [torch.rand(4), 'sum']\n",
            "'how' is a str",
        ),
    ],
)
def test_a_problem_no_kernel_can_solve_is_refused(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made(tmp_path, body)


def test_a_result_without_gradient_leaves_forward_alone(tmp_path: Path) -> None:
    program = made(
        tmp_path, "    def forward(self, x): return x.argmax(-1)\ndef get_inputs(): return [torch.rand(4, 4)]\n"
    )
    assert program.task.directions == (Direction.FORWARD,)
