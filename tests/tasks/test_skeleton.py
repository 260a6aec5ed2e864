"""Kernel files to start from."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.languages import skeleton
from warpsmith.records import Argument, ArgumentKind, Direction, Language, Role, Signature, Task
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite, suite_folder

EVERYTHING = Signature(
    arguments=(
        Argument(name="x", kind=ArgumentKind.TENSOR, role=Role.INPUT),
        Argument(name="bias.g", kind=ArgumentKind.OPTIONAL_TENSOR, role=Role.PARAMETER),
        Argument(name="states", kind=ArgumentKind.TENSORS, role=Role.INPUT),
        Argument(name="default", kind=ArgumentKind.FLOAT, role=Role.CONSTANT),
        Argument(name="n", kind=ArgumentKind.INT, role=Role.CONSTANT),
        Argument(name="flag", kind=ArgumentKind.BOOL, role=Role.CONSTANT),
        Argument(name="dims", kind=ArgumentKind.INTS, role=Role.CONSTANT),
    ),
    results=("grad_x", "grad_states_1", "out"),
)


@pytest.fixture
def task() -> Task:
    return read_task(suite_folder("layernorm")).model_copy(
        update={"backward": EVERYTHING, "name": "1_every.kind", "description": "ends in a backslash \\"}
    )


def test_torch_style_spells_every_kind(task: Task) -> None:
    text = skeleton(task, Direction.BACKWARD)
    for part in (
        "torch::Tensor x",
        "std::optional<torch::Tensor> bias_g",
        "std::vector<torch::Tensor> states",
        "double default_",
        "int64_t n",
        "bool flag",
        "std::vector<int64_t> dims",
        "torch::empty_like(states[1])",
        'm.def("backward", &backward',
    ):
        assert part in text


def test_plain_style_spells_every_kind(task: Task) -> None:
    text = skeleton(task, Direction.BACKWARD, Language.PLAIN)
    assert 'extern "C" int backward(' in text
    for part in ("const DLTensor* const* states", "int64_t states_count", "const int64_t* dims", "DLTensor* grad_x"):
        assert part in text
    assert text.index("DLTensor* out") < text.index("cudaStream_t stream)")


def test_the_comment_gives_sizes_and_cases(task: Task) -> None:
    text = skeleton(task, Direction.BACKWARD)
    assert "//   cols: normalized length" in text
    assert "rows=6 cols=192 float32" in text
    assert not any(line.startswith("//") and line.endswith("\\") for line in text.splitlines())


def test_a_direction_that_is_not_there(task: Task) -> None:
    with pytest.raises(UsageError, match="has no backward direction; it has forward"):
        skeleton(task.model_copy(update={"backward": None}), Direction.BACKWARD)


@pytest.mark.parametrize("task_of_suite", suite(), ids=lambda task: task.name)
def test_the_suite_has_skeletons_in_both_styles(task_of_suite: Task) -> None:
    for direction in task_of_suite.directions:
        for language in Language:
            text = skeleton(task_of_suite, direction, language)
            assert f"{direction}(" in text
            assert max(map(len, text.splitlines())) <= 120


def test_it_names_no_file_of_this_machine(task: Task) -> None:
    assert str(Path.home()) not in skeleton(task, Direction.FORWARD)
