"""What a task answers about itself: its signatures, the cases of a purpose, what a case costs, the ceiling it has."""

import pytest

from warpsmith.base import UsageError
from warpsmith.records import Case, Direction, Dtype, Group, Origin, Precision, Signature, Task, Tolerance
from warpsmith.records.task import Cost

SMALL = Case(name="small", group=Group.SMOKE, axes={"n": 4}, dtype=Dtype.FLOAT16)
LARGE = Case(name="large", group=Group.TIMING, axes={"n": 1024}, dtype=Dtype.FLOAT32)
TASK = Task(
    name="double",
    version="1",
    origin=Origin.SUITE,
    description="",
    source="",
    forward=Signature(arguments=(), results=("out",)),
    cases=(SMALL, LARGE),
    tolerance=Tolerance(norm_floor={}),
    cost={Direction.FORWARD: Cost(flops="n", bytes="2*n*size")},
)


def test_a_direction_that_it_lacks_is_refused_with_those_it_has() -> None:
    assert TASK.signature(Direction.FORWARD) == TASK.forward
    with pytest.raises(UsageError, match="Task double has no backward direction; it has forward"):
        TASK.signature(Direction.BACKWARD)


def test_a_purpose_without_cases_has_the_first_of_all() -> None:
    assert TASK.group_or_first(Group.TIMING) == (LARGE,)
    assert TASK.group_or_first(Group.DEV) == (SMALL,)


def test_a_case_costs_what_the_formulas_say_where_there_are_any() -> None:
    assert (TASK.flops(Direction.FORWARD, SMALL), TASK.bytes(Direction.FORWARD, SMALL)) == (4.0, 16.0)
    assert TASK.flops(Direction.BACKWARD, SMALL) is None and TASK.bytes(Direction.BACKWARD, SMALL) is None


def test_tf32_stands_for_float32_alone() -> None:
    assert Precision(tf32=True).arithmetic(Dtype.FLOAT32) == "tf32"
    assert Precision(tf32=True).arithmetic(Dtype.BFLOAT16) == "bfloat16"
    assert Precision().arithmetic(Dtype.FLOAT32) == "float32"
