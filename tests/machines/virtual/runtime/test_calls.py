"""Each group of the runtime's calls; what it must do is written in calls.cu, which complains with a line."""

import pytest
from runtime_artifacts import Run, numbers

from warpsmith.machines.worker import Observation
from warpsmith.records import Checker


def clean(observation: Observation) -> list[float]:
    """The first result of a call without failure and without findings."""
    assert observation.failure is None, observation.failure
    assert observation.facts is not None
    assert not observation.facts.findings
    return numbers(observation.results[0])


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("launch", [2, 3, 4, 5, 6, 7, 8, 9]),
        ("legacy_stream", [2, 3, 4, 5, 6, 7, 8, 9]),
        ("rows", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("strided", [0, 1, 0, 2, 0, 3, 0, 4]),
        ("symbols", [10, 200, 30, 400, 5, 6, 7, 8]),
        ("streams", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("events", [11, 12, 13, 14, 15, 16, 17, 18]),
        ("joined", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("waits_for_device", [2, 3, 4, 5, 6, 7, 8, 9]),
        ("captured", [3, 4, 5, 6, 7, 8, 9, 10]),
        ("built_graph", [1, 1, 1, 1, 0, 0, 0, 0]),
        ("scrambled_graph", [2, 3, 4, 5, 6, 7, 8, 9]),
        ("changed_graph", [1, 1, 1, 1, 1, 1, 1, 1]),
        ("spoiled_capture", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("device", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("function_facts", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("extended_launch", [3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_the_calls_do_what_cuda_says(calls: Run, entry: str, expected: list[float]) -> None:
    assert clean(calls(entry)) == expected


def test_pinned_memory_is_read_and_written_when_the_copy_runs(calls: Run) -> None:
    assert clean(calls("pinned"))[0] == 7


@pytest.mark.parametrize(
    ("entry", "checker", "expected"),
    [
        ("memory", Checker.OUT_OF_BOUNDS, [2, 3, 4, 5, 6, 7, 8, 9]),
        ("host_copies", Checker.OUT_OF_BOUNDS, [0, 4, 6, 8, 10, 12, 14, 16]),
        ("opted_in", Checker.LAUNCH, [2, 4, 6, 8, 5, 6, 7, 8]),
    ],
)
def test_what_the_entry_did_wrong_on_purpose_is_found(
    calls: Run, entry: str, checker: Checker, expected: list[float]
) -> None:
    observation = calls(entry)
    assert observation.failure is None, observation.failure
    assert observation.facts is not None
    assert [finding.checker for finding in observation.facts.findings] == [checker]
    assert numbers(observation.results[0]) == expected


@pytest.mark.parametrize("entry", ["unjoined", "unjoined_blocking"])
def test_work_that_nobody_joined_is_not_done_and_is_found(calls: Run, entry: str) -> None:
    observation = calls(entry)
    assert observation.facts is not None
    leaks = [finding for finding in observation.facts.findings if finding.checker is Checker.LEAK]
    assert any("bump" in finding.kernel for finding in leaks)
    expected = [0.0] * 8 if entry == "unjoined" else list(range(1, 9))
    assert numbers(observation.results[0]) == expected


def test_counters_come_with_what_ptxas_decided(calls: Run) -> None:
    facts = calls("launch").facts
    assert facts is not None
    (row,) = facts.kernels
    assert "bump" in row.kernel
    assert row.grid == (1, 1, 1) and row.block == (256, 1, 1)
    assert 0 < row.registers < 64
    assert row.blocks_per_sm == 8
    assert row.counters.thread_instructions > 256


def test_launches_of_a_graph_are_told_apart(calls: Run) -> None:
    facts = calls("captured").facts
    assert facts is not None
    assert {row.in_graph for row in facts.kernels} == {True}
    assert sum(row.launches for row in facts.kernels) == 9
