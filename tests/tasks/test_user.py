"""`file.py:Name` of a user."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.languages import skeleton
from warpsmith.records import Direction, Group, Origin, Role, Trial
from warpsmith.tasks.formats.user import user_program
from warpsmith.tasks.inputs.shapes import read_shape
from warpsmith.tasks.reference.program import problem

FILE = Path(__file__).parent.parent / "foreign" / "modules" / "mine.py"


@pytest.mark.parametrize("name", ["Block", "made"])
def test_a_class_and_a_made_module(name: str) -> None:
    program = user_program(FILE, name)
    assert program.task.origin is Origin.MODULE
    assert program.task.group(Group.DEV)[0].axes == {"tokens": 12, "width": 24}
    assert problem(program, Direction.FORWARD, Trial(case=program.task.cases[0])).expected[0].shape == (12, 24)


def test_a_function_with_shapes_from_the_command_line() -> None:
    program = user_program(FILE, "gate", [read_shape("8x16"), read_shape("y=8x16:float32")])
    assert [(a.name, a.role) for a in program.task.forward.arguments] == [("x", Role.INPUT), ("y", Role.INPUT)]
    assert program.task.group(Group.DEV)[0].axes == {"batch": 8, "input_0_1": 16, "y_1": 16}
    assert program.task.group(Group.SMOKE)[0].axes["batch"] == 4


@pytest.mark.parametrize(
    ("name", "texts", "said"),
    [
        ("gate", ["x=8x16", "q=8x16"], "argument 2 of gate is not 'q'; it takes x, y"),
        ("gate", ["y=8x16", "x=8x16"], "argument 1 of gate is not 'y'"),
        ("Block", ["q=12x24"], "argument 1 of Block is not 'q'; it takes x"),
    ],
)
def test_a_named_input_is_of_its_argument(name: str, texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        user_program(FILE, name, [read_shape(text) for text in texts])


def test_sizes_that_the_file_writes_as_numbers_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "literal.py"
    path.write_text("import torch\nNet = torch.nn.Linear(8, 4)\ndef get_inputs():\n    return [torch.randn(2, 8)]\n")
    task = user_program(path, "Net").task
    shown = "input=2x8:float32 weight=4x8:float32 bias=4:float32"
    assert task.shape_lines == (f"smoke, given, timing: {shown}",)
    assert f"// Shapes:\n//   smoke, given, timing: {shown}\n" in skeleton(task, Direction.FORWARD)


def test_other_shapes_are_another_version() -> None:
    versions = {user_program(FILE, "made", [read_shape(text)]).task.version for text in ("8x16", "8x17")}
    assert len(versions) == 2


@pytest.mark.parametrize(
    ("name", "said"), [("Blok", "no 'Blok' in it.*Block"), ("number", "'number' is a int"), ("tokens", "is a int")]
)
def test_a_name_that_is_no_module_or_function(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        user_program(FILE, name)


def test_a_file_without_example_inputs(tmp_path: Path) -> None:
    path = tmp_path / "bare.py"
    path.write_text("def gate(x):\n    return x * 2\n")
    with pytest.raises(UsageError, match=r"gate has no example inputs.*--input 32x1024"):
        user_program(path, "gate")
