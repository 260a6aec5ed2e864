"""robust-kbench folders, in the form of theirs."""

import shutil
from pathlib import Path

import pytest
import torch

from warpsmith.base import UsageError
from warpsmith.records import ArgumentKind, Direction, Group, Origin, Role, Trial
from warpsmith.tasks.formats.robust_kbench import KbenchProgram
from warpsmith.tasks.reference.program import problem

FOLDERS = Path(__file__).parent.parent / "foreign" / "robust_kbench"


@pytest.fixture(scope="module")
def norm() -> KbenchProgram:
    return KbenchProgram(FOLDERS / "scaled_norm")


@pytest.fixture(scope="module")
def pool() -> KbenchProgram:
    return KbenchProgram(FOLDERS / "gate_pool")


def kinds(program: KbenchProgram, direction: Direction) -> list[tuple[str, ArgumentKind, Role]]:
    return [(a.name, a.kind, a.role) for a in program.task.signature(direction).arguments]


def test_forward_takes_what_the_model_passes_to_fn(norm: KbenchProgram) -> None:
    assert norm.task.origin is Origin.ROBUST_KBENCH
    assert kinds(norm, Direction.FORWARD) == [
        ("x", ArgumentKind.TENSOR, Role.INPUT),
        ("weight", ArgumentKind.TENSOR, Role.PARAMETER),
        ("bias", ArgumentKind.TENSOR, Role.PARAMETER),
        ("eps", ArgumentKind.FLOAT, Role.CONSTANT),
    ]


def test_backward_takes_what_the_autograd_function_passes(norm: KbenchProgram) -> None:
    assert kinds(norm, Direction.BACKWARD) == [
        ("grad_output", ArgumentKind.TENSOR, Role.GRAD),
        ("x", ArgumentKind.TENSOR, Role.INPUT),
        ("weight", ArgumentKind.TENSOR, Role.PARAMETER),
        ("bias", ArgumentKind.TENSOR, Role.PARAMETER),
        ("eps", ArgumentKind.FLOAT, Role.CONSTANT),
        ("normalized_shape", ArgumentKind.INTS, Role.CONSTANT),
    ]
    assert norm.task.signature(Direction.BACKWARD).results == ("grad_weight", "grad_bias", "grad_x")


def test_work_is_counted_on_the_file_of_its_direction(norm: KbenchProgram) -> None:
    names = {case.name for case in norm.task.cases}
    assert all(set(norm.task.work[direction]) == names for direction in Direction)
    ahead, back = (norm.task.work[direction]["single_0"].bytes for direction in Direction)
    assert back / ahead == pytest.approx(1.5, rel=0.05)  # three tensors of the size of x in place of two


def test_every_config_of_both_files_is_a_case(norm: KbenchProgram) -> None:
    names = [case.name for case in norm.task.cases]
    assert names[0] == "smoke"
    assert names[1] == "single_0"
    assert len([name for name in names if name.startswith("multi_")]) == 7  # one of eight is single_0 again
    assert "backward_multi_0" in names
    assert [case.axes["batch_size"] for case in norm.task.group(Group.TIMING)] == [16]
    assert norm.task.group(Group.SMOKE)[0].axes["batch_size"] == 4


@pytest.mark.parametrize("direction", list(Direction))
def test_every_case_has_a_reference(norm: KbenchProgram, direction: Direction) -> None:
    for case in norm.task.cases:
        found = problem(norm, direction, Trial(case=case, seed=3))
        assert len(found.native) == len(norm.task.signature(direction).results)
        for native, expected in zip(found.native, found.expected, strict=True):
            assert expected.dtype is torch.float64
            torch.testing.assert_close(native.double(), expected, rtol=1e-4, atol=1e-4)


def test_gradients_stand_where_the_file_expects_them(norm: KbenchProgram) -> None:
    case = next(case for case in norm.task.cases if case.name == "single_0")
    found = problem(norm, Direction.BACKWARD, Trial(case=case, seed=1))
    assert [tuple(grad.shape) for grad in found.expected] == [(8, 32), (8, 32), (16, 8, 32)]
    grad_out = found.arguments[0]
    assert isinstance(grad_out, torch.Tensor)
    torch.testing.assert_close(found.expected[1], grad_out.double().sum(0))  # the bias's gradient, second


def test_an_init_that_is_absent_in_one_case_is_optional(pool: KbenchProgram) -> None:
    assert ("biases", ArgumentKind.OPTIONAL_TENSOR, Role.PARAMETER) in kinds(pool, Direction.FORWARD)
    case = next(case for case in pool.task.cases if case.name == "multi_0")
    assert problem(pool, Direction.FORWARD, Trial(case=case)).arguments[2] is None


def test_keywords_follow_positional_arguments(pool: KbenchProgram) -> None:
    assert kinds(pool, Direction.FORWARD)[3:] == [
        ("kernel_size", ArgumentKind.INT, Role.CONSTANT),
        ("scale", ArgumentKind.FLOAT, Role.CONSTANT),
    ]


def test_a_tuple_of_saved_tensors_is_passed_as_one(pool: KbenchProgram) -> None:
    assert kinds(pool, Direction.BACKWARD) == [
        ("x", ArgumentKind.TENSORS, Role.INPUT),
        ("grad_output", ArgumentKind.TENSOR, Role.GRAD),
    ]
    case = pool.task.cases[0]
    found = problem(pool, Direction.BACKWARD, Trial(case=case))
    assert isinstance(found.arguments[0], tuple)


def test_without_a_backward_file_there_is_no_backward() -> None:
    program = KbenchProgram(FOLDERS / "pick_loss")
    assert program.task.directions == (Direction.FORWARD,)
    assert kinds(program, Direction.FORWARD)[1] == ("targets", ArgumentKind.TENSOR, Role.FIXED)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return fn(predictions, targets)", "return predictions", "never calls its fn"),
        ("def forward_fn", "def other_fn", "name 'forward_fn' is not defined"),
        ("def get_inputs", "def inputs", "no 'get_inputs' in it"),
        ("return [torch.randn(batch", "return [] and [torch.randn(batch", "gives no inputs"),
    ],
)
def test_a_folder_of_another_form_says_what_is_missing(tmp_path: Path, old: str, new: str, said: str) -> None:
    folder = tmp_path / "task"
    shutil.copytree(FOLDERS / "pick_loss", folder)
    path = folder / "func_forward.py"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises((UsageError, NameError), match=said):
        KbenchProgram(folder)


def test_a_setting_that_nothing_takes_is_a_slip(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(FOLDERS / "pick_loss", folder)
    config = folder / "config_forward.json"
    config.write_text(config.read_text().replace('"num_classes": 3', '"num_clases": 3'))
    with pytest.raises(UsageError, match=r"case 'multi_1': setting 'num_clases' is taken by neither.*num_classes"):
        KbenchProgram(folder)


def test_a_setting_no_tensor_can_have_is_blamed_on_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(FOLDERS / "pick_loss", folder)
    config = folder / "config_forward.json"
    config.write_text(config.read_text().replace('"batch_size": 7', '"batch_size": 90000000000'))
    with pytest.raises(UsageError, match=r"case 'multi_1' \(batch_size=90000000000, .* at most 8589934592"):
        KbenchProgram(folder)
