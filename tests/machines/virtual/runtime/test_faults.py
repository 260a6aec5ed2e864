"""Candidates that go wrong: a reason each, a sentence each, never an exception and never a result."""

import pytest
from runtime_artifacts import EIGHT, HERE, LIMITS, Run, artifact, numbers

from warpsmith.machines.virtual import ExecutorSettings
from warpsmith.machines.worker import VirtualSandbox
from warpsmith.records import Checker, Reason


@pytest.mark.parametrize(
    ("entry", "reason", "words"),
    [
        ("out_of_bounds", Reason.FINDINGS, "overrun"),
        ("unseen_fault", Reason.FINDINGS, "overrun"),
        ("misaligned", Reason.FINDINGS, "pair"),
        ("wild_pointer", Reason.FINDINGS, "bump"),
        ("trap", Reason.DEVICE_TRAP, "trapped"),
        ("no_threads", Reason.LAUNCH_ERROR, "cudaErrorInvalidValue"),
        ("no_blocks", Reason.LAUNCH_ERROR, "cudaErrorInvalidValue"),
        ("too_many_threads", Reason.LAUNCH_ERROR, "cudaErrorInvalidValue"),
        ("managed", Reason.UNKNOWN_CALL, "cudaMallocManaged"),
        ("set_limit", Reason.UNKNOWN_CALL, "cudaDeviceSetLimit"),
        ("callback", Reason.UNKNOWN_CALL, "cudaLaunchHostFunc"),
        ("dereference", Reason.CRASH, "SIGSEGV"),
        ("bad_host_pointer", Reason.CRASH, "SIGSEGV"),
        ("aborts", Reason.CRASH, "SIGABRT"),
        ("leaves", Reason.BAD_ANSWER, "exit code 0"),
        ("throws", Reason.CANDIDATE_ERROR, "exception"),
        ("prints", Reason.CRASH, "printed more than"),
        ("host_bomb", Reason.MEMORY_LIMIT, "memory"),
        ("gives_host_pointer", Reason.BAD_ANSWER, "does not lie in memory"),
        ("gives_too_long", Reason.BAD_ANSWER, "does not lie in memory"),
        ("gives_negative", Reason.BAD_ANSWER, "strides"),
        ("gives_a_thousand", Reason.BAD_ANSWER, "64 results"),
        ("forges", Reason.BAD_ANSWER, "junk"),
        ("answers_twice", Reason.BAD_ANSWER, "after the last frame"),
        ("no_such_entry", Reason.NO_ENTRY, "no_such_entry"),
    ],
)
def test_every_fault_has_its_reason(faults: Run, entry: str, reason: Reason, words: str) -> None:
    observation = faults(entry)
    assert observation.failure is not None
    assert observation.failure.reason is reason, observation.failure
    assert words in observation.failure.detail
    assert observation.results == ()


def test_an_overrun_is_found_with_its_line(faults: Run) -> None:
    facts = faults("out_of_bounds").facts
    assert facts is not None
    finding = next(raw.finding() for raw in facts.findings if raw.checker is Checker.OUT_OF_BOUNDS)
    source = (HERE / "faults.cu").read_text().splitlines()
    assert finding.place is not None and finding.place.file.endswith("faults.cu")
    assert "void overrun" in source[finding.place.line - 1]
    assert finding.span is not None and finding.thread is not None


def test_a_launch_that_failed_and_was_swallowed_leaves_a_finding(faults: Run) -> None:
    observation = faults("swallowed")
    assert observation.failure is None
    assert observation.facts is not None
    (finding,) = observation.facts.findings
    assert finding.checker is Checker.LAUNCH and "2048" in finding.message and "1024" in finding.message


def test_an_endless_loop_is_stopped_at_the_budget() -> None:
    sandbox = VirtualSandbox(limits=LIMITS, settings=ExecutorSettings(instruction_budget=10_000_000))
    observation = sandbox.run(artifact(HERE / "faults.cu"), "endless", [EIGHT])
    assert observation.failure is not None
    assert observation.failure.reason is Reason.INSTRUCTION_BUDGET
    assert "spin" in observation.failure.detail


def test_gigabytes_of_printf_leave_a_trimmed_log() -> None:
    sandbox = VirtualSandbox(limits=LIMITS, settings=ExecutorSettings(print_limit_bytes=4096))
    observation = sandbox.run(artifact(HERE / "faults.cu"), "chatty", [EIGHT])
    assert observation.failure is None, observation.failure
    assert observation.facts is not None
    assert "line 0 of thread 0" in observation.facts.log
    assert len(observation.facts.log) <= 4096
    assert numbers(observation.results[0]) == list(range(1, 9))


def test_a_host_that_hangs_is_ended_at_the_time_limit() -> None:
    limits = type(LIMITS)(wall_s=1.5, cpu_s=5, memory_bytes=1 << 30, processes=64)
    observation = VirtualSandbox(limits=limits).run(artifact(HERE / "faults.cu"), "hangs", [EIGHT])
    assert observation.failure is not None
    assert observation.failure.reason is Reason.TIME_LIMIT


def test_a_device_without_memory_left_is_a_memory_limit() -> None:
    sandbox = VirtualSandbox(limits=LIMITS, settings=ExecutorSettings(memory_bytes=1 << 30))
    observation = sandbox.run(artifact(HERE / "faults.cu"), "device_bomb", [EIGHT])
    assert observation.failure is not None
    assert observation.failure.reason is Reason.MEMORY_LIMIT
    assert "cudaMalloc of 268435456 bytes" in observation.failure.detail


def test_a_result_nobody_wrote_is_found(faults: Run) -> None:
    facts = faults("gives_nothing_written").facts
    assert facts is not None
    assert Checker.UNINITIALIZED in {finding.checker for finding in facts.findings}
