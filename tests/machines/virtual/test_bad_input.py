"""What is thrown at the virtual GPU ends in a verdict: a reason, a sentence, and no traceback."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs import artifact, observe, tensors, virtual

from warpsmith.isolation import ProcessLimits
from warpsmith.machines.virtual import ExecutorSettings
from warpsmith.machines.worker import Observation
from warpsmith.machines.worker.tensors import to_values
from warpsmith.records import Checker, Reason

BAD = Path(__file__).parent / "bad"
X = torch.arange(64, dtype=torch.float32)
PTX_TEXT = re.compile(rb"\.version \d+\.\d+\n[^\0]+")  # as it lies in the fat binary, up to its final zero

# Entry of bad/input.cu, the reason, and a word of the sentence.
VERDICTS = (
    ("no_threads", Reason.LAUNCH_ERROR, "thread"),
    ("too_many_threads", Reason.LAUNCH_ERROR, "1025"),
    ("pointer_from_nowhere", Reason.FINDINGS, "scale_kernel"),
    ("null_pointer", Reason.FINDINGS, "scale_kernel"),
    ("host_pointer", Reason.FINDINGS, "scale_kernel"),
    ("endless", Reason.INSTRUCTION_BUDGET, "endless_kernel"),
    ("unknown_instruction", Reason.UNKNOWN_INSTRUCTION, "m8n8k4"),
    ("unknown_call", Reason.UNKNOWN_CALL, "cudaCreateTextureObject"),
    ("trapped", Reason.DEVICE_TRAP, "trap"),
    ("host_reads_device", Reason.CRASH, "crash"),
    ("refuses", Reason.CANDIDATE_ERROR, "seven dimensions"),
    ("asks_for_too_much", Reason.MEMORY_LIMIT, "17592186044416 bytes"),
    ("leaves", Reason.BAD_ANSWER, "answer"),
    ("answers_elsewhere", Reason.BAD_ANSWER, "memory"),
    ("absent", Reason.NO_ENTRY, "entry"),
)


def _source() -> str:
    return (BAD / "input.cu").read_text()


@pytest.mark.parametrize(("entry", "reason", "word"), VERDICTS, ids=[entry for entry, _, _ in VERDICTS])
def test_a_verdict_and_a_sentence(entry: str, reason: Reason, word: str) -> None:
    seen = observe(_source(), entry, (X,))
    assert seen.failure is not None
    assert seen.failure.reason is reason, seen.failure
    assert word in _said(seen)
    assert "Traceback" not in _said(seen)


def _said(seen: Observation) -> str:
    assert seen.failure is not None
    findings = seen.facts.findings if seen.facts else ()
    return "\n".join([seen.failure.detail, seen.output, *(finding.message for finding in findings)])


def test_the_kernels_beside_them_run() -> None:
    assert tensors(observe(_source(), "forward", (X,)))[0].equal(X * 2)


def test_wrong_arguments_are_refused() -> None:
    failure = observe(_source(), "forward", (X, 3)).failure
    assert failure is not None and failure.reason is Reason.WRONG_SIGNATURE


@pytest.mark.parametrize("entry", ["pointer_from_nowhere", "null_pointer", "host_pointer"])
def test_a_wild_pointer_is_named(entry: str) -> None:
    facts = observe(_source(), entry, (X,)).facts
    assert facts is not None
    finding = facts.findings[0]
    assert finding.checker is Checker.OUT_OF_BOUNDS
    assert finding.line == 1 + _source().splitlines().index("  if (i < n) out[i] = x[i] * 2.f;")


def test_division_by_zero_is_no_trap() -> None:
    seen = observe(_source(), "division_by_zero", (X,))
    assert seen.failure is None
    assert len(tensors(seen)) == 1


def test_two_gigabytes_of_printf_are_trimmed() -> None:
    seen = observe(
        _source(), "flood", (X,), replace(virtual(), settings=ExecutorSettings(instruction_budget=2_000_000_000))
    )
    assert seen.failure is None and seen.facts is not None
    assert 1 << 20 <= len(seen.facts.log) < 2 << 20


def test_host_code_that_loops_is_stopped() -> None:
    limits = ProcessLimits(wall_s=1.0, cpu_s=5, memory_bytes=4 << 30, processes=64)
    failure = observe(_source(), "host_loops", (X,), replace(virtual(), limits=limits)).failure
    assert failure is not None and failure.reason is Reason.TIME_LIMIT


def test_half_a_request_is_told_of_the_candidate() -> None:
    """The judge's own requests wait behind it, and not until the executor's end."""
    sandbox = replace(
        virtual(), settings=ExecutorSettings(answer_s=2.0), limits=ProcessLimits(wall_s=20, memory_bytes=4 << 30)
    )
    failure = observe(_source(), "half_a_request", (X,), sandbox).failure
    assert failure is not None and failure.reason is Reason.TIME_LIMIT, failure


def test_an_executor_that_is_killed_is_our_fault() -> None:
    """The kernel would run for minutes; the executor is killed while it does."""
    sandbox = replace(virtual(), settings=ExecutorSettings(instruction_budget=10**12))
    observe(_source(), "forward", (X,))  # everything is built before the clock matters
    killer = threading.Thread(target=_kill_executor)
    killer.start()
    failure = observe(_source(), "endless", (X,), sandbox).failure
    killer.join()
    assert failure is not None and failure.reason is Reason.HARNESS
    assert "executor" in failure.detail


def _kill_executor() -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        time.sleep(0.3)  # the kernel is under way by then
        for pid in _descendants(os.getpid()):
            if _program(pid).startswith("warpsmith-exec"):
                os.kill(pid, signal.SIGKILL)
                return


def _descendants(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(word) for path in tasks for word in _text(path).split()]
    return children + [below for child in children for below in _descendants(child)]


def _program(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/comm")).strip()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # it ended meanwhile


def _with_ptx(folder: Path, change: Callable[[bytes], bytes]) -> Observation:
    """The module's artifact with every copy of its PTX replaced, run; the file keeps its size."""
    whole = artifact((BAD / "module.cu").read_text()).read_bytes()

    def replaced(match: re.Match[bytes]) -> bytes:
        text = change(match.group())
        assert len(text) <= len(match.group())
        return text.ljust(len(match.group()), b" ")

    made, count = PTX_TEXT.subn(replaced, whole)
    assert count >= 1
    path = folder / "kernel.so"
    path.write_bytes(made)
    return virtual().run(path, "forward", to_values((X,)))


def test_ptx_of_another_tool_runs(tmp_path: Path) -> None:
    other = (BAD / "another_tool.ptx").read_bytes()
    short = b"\n".join(line.strip() for line in other.splitlines() if not line.strip().startswith(b"//"))
    assert tensors(_with_ptx(tmp_path, lambda _: short))[0].equal(X * 3)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda text: text[: len(text) // 2], "ends"),
        (lambda text: text[: text.index(b"{")], "ends"),
        (lambda text: text.replace(b".version", b".virsion"), ".version"),
        (lambda text: b"; ModuleID = 'kernel'\ntarget triple = \"nvptx64\"\n", "PTX"),
        (lambda text: b"\xff" * len(text), "PTX"),
        (lambda text: b"", "PTX"),
        (lambda text: text.replace(b"twice", b"thric"), "twice"),
    ],
    ids=["half", "no-body", "misspelt", "not-ptx", "no-text", "empty", "other-entry"],
)
def test_ptx_that_cannot_be_read_fails_the_candidate(
    tmp_path: Path, change: Callable[[bytes], bytes], word: str
) -> None:
    seen = _with_ptx(tmp_path, change)
    assert seen.failure is not None
    assert seen.failure.reason is Reason.LAUNCH_ERROR, seen.failure
    assert word in seen.failure.detail


def test_ptx_that_uses_what_it_does_not_declare_gives_no_answer(tmp_path: Path) -> None:
    failure = _with_ptx(tmp_path, lambda text: text.replace(b"%f<", b"%q<")).failure
    assert failure is not None
    assert failure.reason in (Reason.LAUNCH_ERROR, Reason.UNKNOWN_INSTRUCTION)
    assert "twice" in failure.detail
