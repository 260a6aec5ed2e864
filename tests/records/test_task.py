"""What a task answers about itself: its signatures, the cases of a purpose, what a case costs, the ceiling it has."""

import pytest

from warpsmith.base import UsageError
from warpsmith.records import Case, Direction, Dtype, Group, Narrower, Origin, Precision, Signature, Task, Tolerance
from warpsmith.records.task import WorkFormulas

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
    cost={Direction.FORWARD: WorkFormulas(flops="n", bytes="2*n*size")},
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


def test_forward_has_what_is_narrower_and_backward_what_is_not() -> None:
    floors = {Dtype.FLOAT32: 1e-5, Dtype.BFLOAT16: 1e-2}
    own = Narrower(norm_factor=2.0, norm_floor={Dtype.BFLOAT16: 5e-3}, reduction="n")
    both = Tolerance(factor=8.0, norm_floor=floors, reduction="max(n, m)", forward=own)
    forward, backward = both.of(Direction.FORWARD), both.of(Direction.BACKWARD)
    assert forward.norm_floor == {Dtype.FLOAT32: 1e-5, Dtype.BFLOAT16: 5e-3}
    assert (forward.factor, forward.norm_factor, forward.reduction) == (8.0, 2.0, "n")
    assert (backward.norm_factor, backward.reduction, backward.norm_floor) == (4.0, "max(n, m)", floors)
    assert Tolerance(norm_floor=floors).of(Direction.FORWARD) == Tolerance(norm_floor=floors)


def test_what_is_not_named_forward_stays() -> None:
    shorter = Tolerance(norm_floor={Dtype.FLOAT16: 1e-3}, forward=Narrower(reduction="n")).of(Direction.FORWARD)
    assert (shorter.norm_floor, shorter.norm_factor, shorter.reduction) == ({Dtype.FLOAT16: 1e-3}, 4.0, "n")
