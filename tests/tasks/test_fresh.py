"""Fresh problems: every one differs in all it has, each is right, and a seed repeats them."""

from itertools import combinations, islice, pairwise

import pytest
import torch

from warpsmith.records import Direction, Group, Trial, Twist
from warpsmith.tasks.host import open_task
from warpsmith.tasks.inputs.values import tensors
from warpsmith.tasks.reference.fresh import outline, problems
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import folders


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
            assert torch.allclose(native.double(), expected, atol=1e-5 * float(expected.abs().max()))
    assert not torch.equal(first.expected[0], second.expected[0])


@pytest.mark.parametrize("task", ["softmax", "cross_entropy"])
def test_nothing_of_a_call_is_there_in_the_next(task: str) -> None:
    """Pieces that come again could be known by a few of their elements, and what was summed over them kept."""
    calls = some(task, Direction.FORWARD, count=4)
    for one, other in combinations((tensors(call.arguments)[0].flatten().tolist() for call in calls), 2):
        pairs = set(pairwise(one))
        assert not any(pair in pairs for pair in pairwise(other))


def test_a_twist_is_drawn_too() -> None:
    with open_task("softmax") as task:
        trial = Trial(case=task.describe().group(Group.SMOKE)[0], twist=Twist.NUDGED)
        first, second = (
            tensors(call.arguments)[0].flatten()
            for call in islice(problems(task, Direction.FORWARD, trial, 1, "cpu"), 2)
        )
    for one in (first, second):
        largest, next_one = one.abs().topk(2).values.tolist()
        assert largest > 4 * next_one
    assert int(first.abs().argmax()) != int(second.abs().argmax())


def test_tables_are_drawn_as_well() -> None:
    first, second, _ = some("rope", Direction.FORWARD)
    pairs = list(zip(tensors(first.arguments), tensors(second.arguments), strict=True))
    assert len(pairs) == 4 and not any(torch.equal(one, other) for one, other in pairs)


def test_a_seed_repeats_them() -> None:
    one, two = (some("softmax", Direction.FORWARD, seed=9)[2] for _ in range(2))
    assert torch.equal(one.expected[0], two.expected[0])


@pytest.mark.parametrize("name", folders())
def test_an_outline_has_the_shapes_and_no_numbers(name: str) -> None:
    opened = open_task(name)
    case = opened.describe().group(Group.SMOKE)[0]
    for direction in Direction:
        real, shape = opened.problem(direction, Trial(case=case)), outline(opened, direction, Trial(case=case))
        assert [(t.shape, t.dtype) for t in shape.native] == [(t.shape, t.dtype) for t in real.native]
        assert {t.device.type for t in shape.native} == {"meta"}
