"""What a foreign task cannot do without: products counted, and the bytes of what results depend on."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from warpsmith.records import Direction, Work
from warpsmith.tasks.formats.user import user_program
from warpsmith.tasks.inputs.shapes import read_shape
from warpsmith.tasks.inputs.values import Values
from warpsmith.tasks.inspection import work
from warpsmith.tasks.inspection.work import find_read_tensors

FILE = Path(__file__).parent.parent / "foreign" / "modules" / "mine.py"
X, W = torch.randn(8, 12), torch.randn(5, 12)
IDS = torch.tensor([3, 1, 7, 7])
TOKENS, WIDTH = 12, 24


@pytest.mark.parametrize(
    ("function", "arguments", "read"),
    [
        (torch.relu, (X,), (True,)),
        (lambda x: x.amax(-1), (X,), (True,)),
        (lambda x: x[:, :6] * 2, (X,), (False,)),
        (lambda x: x[::2] + 1, (X,), (False,)),
        (torch.tril, (torch.randn(9, 9),), (False,)),
        (torch.nn.functional.linear, (X, W), (True, True)),
        (lambda x, w: x + 0 * w.shape[0], (X, W), (True, False)),
        (lambda ids, table: table[ids], (IDS, X), (True, False)),
        (torch.where, (X > 0, X, X + 1), (True, False, False)),
        (torch.nn.functional.cross_entropy, (X, torch.arange(8)), (True, True)),
        (lambda ids: ids + 1, (torch.full((4,), 2),), (False,)),  # no other value is known to be allowed
        (lambda x: x.sum(), (torch.zeros(0),), (False,)),
    ],
)
def test_what_results_depend_on(function: object, arguments: Values, read: tuple[bool, ...]) -> None:
    assert find_read_tensors(lambda given: (function(*given),), arguments) == read  # type: ignore[operator]


def test_a_value_that_is_refused_is_read() -> None:
    def strict(given: Values) -> tuple[Tensor]:
        if any(bool(one.isnan().any()) for one in given if isinstance(one, Tensor)):
            raise ValueError("not a number")
        return (torch.ones(3),)

    assert find_read_tensors(strict, (X,)) == (True,)


def test_a_block_of_linear_layers() -> None:
    found = user_program(FILE, "Block").task.work
    inner, numbers = 2 * WIDTH, TOKENS * WIDTH
    weights = inner * WIDTH + inner + WIDTH * inner
    products = 2 * 2 * TOKENS * WIDTH * inner
    assert found[Direction.FORWARD]["given"] == Work(flops=products, bytes=4 * (2 * numbers + weights))
    assert found[Direction.BACKWARD]["given"] == Work(flops=2 * products, bytes=4 * (3 * numbers + 2 * weights))


def test_every_case_has_its_own() -> None:
    task = user_program(FILE, "gate", [read_shape("800x16"), read_shape("800x16")]).task
    least = {case.name: task.least(Direction.FORWARD, case) for case in task.cases}
    assert least["given"] == least["timing"] == Work(flops=0, bytes=4 * 3 * 800 * 16)
    assert least["smoke"] == Work(flops=0, bytes=4 * 3 * 4 * 16)


def test_code_that_needs_values_has_no_count(tmp_path: Path) -> None:
    path = tmp_path / "branch.py"
    path.write_text("import torch\ndef f(x):\n    return x if x.sum() > 0 else -x\n")
    task = user_program(path, "f", [read_shape("4x4")]).task
    assert task.least(Direction.FORWARD, task.cases[0]) is None


def test_a_smallest_case_that_takes_too_long_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "MOST_FLOPS", 1e4)
    assert user_program(FILE, "Block").task.work == {Direction.FORWARD: {}, Direction.BACKWARD: {}}
