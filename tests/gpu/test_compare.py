"""The comparison on a real GPU: no result that is not a number passes, wherever it stands."""

import pytest
import torch

from warpsmith.evaluation.check.compare import Budget, compare
from warpsmith.records import Group
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite_program

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 1000, (1 << 20) + 3])
def test_not_a_number_fails_wherever_it_stands(dtype: torch.dtype, size: int) -> None:
    task = suite_program("swiglu").task
    case = task.group(Group.SMOKE)[0]
    expected = torch.randn(size, dtype=torch.float64, device="cuda")
    problem = Problem((), (expected.to(dtype),), (expected,))
    right = expected.to(dtype)
    assert compare([right], problem, ["out"], Budget.of(task.tolerance, case)).passed
    for place in {0, size // 2, size - 1}:
        for bad in (torch.nan, torch.inf, -torch.inf):
            wrong = right.clone()
            wrong[place] = bad
            assert not compare([wrong], problem, ["out"], Budget.of(task.tolerance, case)).passed
