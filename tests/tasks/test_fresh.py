"""Fresh problems: every one differs, each is right, tables stay, and a seed repeats them."""

from collections.abc import Callable
from itertools import islice, pairwise

import pytest
import torch

from warpsmith.records import Direction, Group, Trial
from warpsmith.tasks.find import open_task
from warpsmith.tasks.fresh import outline, problems
from warpsmith.tasks.program import Problem
from warpsmith.tasks.values import tensors


def some(name: str, direction: Direction, seed: int = 1, count: int = 3) -> list[Problem]:
    with open_task(name) as task:
        case = task.describe().group(Group.SMOKE)[0]
        return list(islice(problems(task, direction, Trial(case=case, seed=4), seed, "cpu"), count))


@pytest.mark.parametrize("direction", list(Direction))
def test_every_problem_differs_and_has_its_own_truth(direction: Direction) -> None:
    first, second, _ = some("layernorm", direction)
    assert not torch.equal(tensors(first.arguments)[1], tensors(second.arguments)[1])
    for call in (first, second):
        for native, expected in zip(call.native, call.expected, strict=True):
            assert torch.allclose(native.double(), expected, atol=1e-3)
    assert not torch.equal(first.expected[0], second.expected[0])


def test_values_are_mixed_not_redrawn() -> None:
    first, second, _ = some("softmax", Direction.FORWARD)
    one, two = (tensors(call.arguments)[0].unique() for call in (first, second))
    base = torch.cat([one, two]).unique()
    drawn = tensors(first.arguments)[0].numel()
    assert drawn // 2 <= len(one) <= drawn and drawn // 2 <= len(two) <= drawn
    assert len(base) <= drawn, "nothing that was not in the draw"


@pytest.mark.parametrize("kept", [torch.sum, torch.norm, torch.amax])
def test_what_a_roll_leaves_alone_does_not_stay(kept: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A kernel could keep it from the call before, and be right and soon."""
    found = [float(kept(tensors(call.arguments)[0].double())) for call in some("softmax", Direction.FORWARD, count=24)]
    changes = sum(one != other for one, other in pairwise(found))
    assert changes >= (5 if kept is torch.amax else 20), "about half of the time the largest is still there"


def test_indices_are_each_there_as_often_as_before() -> None:
    first, second, _ = some("cross_entropy", Direction.FORWARD)
    one, two = (
        [t.flatten().sort().values for t in tensors(call.arguments) if not t.is_floating_point()]
        for call in (first, second)
    )
    assert one and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_tables_stay() -> None:
    first, second, _ = some("rope", Direction.FORWARD)
    same = [torch.equal(a, b) for a, b in zip(tensors(first.arguments), tensors(second.arguments), strict=True)]
    assert same.count(True) == 2


def test_a_seed_repeats_them() -> None:
    one, two = (some("softmax", Direction.FORWARD, seed=9)[2] for _ in range(2))
    assert torch.equal(one.expected[0], two.expected[0])


def test_an_outline_has_the_shapes_and_no_numbers() -> None:
    opened = open_task("layernorm")
    case = opened.describe().group(Group.SMOKE)[0]
    for direction in Direction:
        real, shape = opened.problem(direction, Trial(case=case)), outline(opened, direction, Trial(case=case))
        assert [(t.shape, t.stride(), t.dtype) for t in shape.native] == [
            (t.shape, t.stride(), t.dtype) for t in real.native
        ]
        assert {t.device.type for t in shape.native} == {"meta"}
