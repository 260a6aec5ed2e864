"""docs/suite.md tells of every task and of every timing case with its sizes."""

from pathlib import Path

import pytest

from warpsmith.records import Direction, Dtype, Group, Task
from warpsmith.tasks.suite import suite

TEXT = (Path(__file__).parents[3] / "docs" / "suite.md").read_text()


@pytest.mark.parametrize("task", suite(), ids=lambda task: task.name)
def test_the_shapes_written_are_the_shapes_timed(task: Task) -> None:

    rows = [line for line in TEXT.splitlines() if line.startswith(f"| {task.name} |")]
    assert len(rows) >= 3
    for case in task.group(Group.TIMING):
        sizes = ", ".join(f"{axis} {size}" for axis, size in case.axes.items())
        assert any(line.endswith(f"| {sizes} |") for line in rows), case.name
    assert task.heldout is not None
    ranges = [f"{axis} {reach.low}–{reach.high}" for axis, reach in task.heldout.axes.items()]
    assert any(all(span in line for span in ranges) for line in rows)


@pytest.mark.parametrize("task", suite(), ids=lambda task: task.name)
def test_the_bounds_written_are_the_bounds_held(task: Task) -> None:
    forward, backward = (task.tolerance.of(direction) for direction in Direction)

    def shown(one: str, other: str) -> str:
        return one if one == other else f"{one} · {other}"

    floors = [
        shown(*(f"{one.norm_floor[dtype]:g}" if dtype in one.norm_floor else "–" for one in (forward, backward)))
        for dtype in (Dtype.FLOAT32, Dtype.FLOAT16, Dtype.BFLOAT16)
    ]
    sums = shown(f"`{forward.reduction}`", f"`{backward.reduction}`")
    assert f"| {task.name} | {' | '.join(floors)} | {sums} |" in TEXT
