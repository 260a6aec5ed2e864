"""The sanitizer stage without a GPU: when it runs, and what its reports come to."""

from pathlib import Path
from typing import cast

import pytest

from warpsmith.evaluation.check.sanitizer import SanitizerReport, read_sanitizer
from warpsmith.evaluation.stages.sanitize import CALLS, DECIDING, MISSING, SPARED, concluded, not_needed, read_run
from warpsmith.machines.worker import Observation
from warpsmith.machines.worker.protocol import Status, WorkerReply
from warpsmith.machines.worker.run import call_repeatedly
from warpsmith.machines.worker.worker import Conversation
from warpsmith.records import (
    Candidate,
    Case,
    Checker,
    Direction,
    Dtype,
    Environment,
    Failure,
    Finding,
    Group,
    Reason,
    Record,
    SanitizerFacts,
    StageResult,
    Verdict,
)

CAPTURED = Path(__file__).parents[1] / "check" / "captured"
CASE = Case(name="smoke", group=Group.SMOKE, axes={"rows": 2}, dtype=Dtype.FLOAT32)
CLEAN = SanitizerReport((), 0)
CUT = SanitizerReport((), None, ("Unable to launch",))


def record(virtual: Verdict | None) -> Record:
    candidate = Candidate(task="softmax", direction=Direction.FORWARD, source="x")
    empty = Record(candidate=candidate, task_version="1", environment=Environment(device="d", hardware="h"))
    return empty if virtual is None else empty.with_result(StageResult(stage="virtual", verdict=virtual, detail="d"))


def test_a_search_spares_what_the_virtual_gpu_has_looked_at() -> None:
    assert not_needed(record(Verdict.PASS), "search", "/bin/tool") == SPARED
    assert not_needed(record(Verdict.PASS), "claim", "/bin/tool") == ""
    assert not_needed(record(Verdict.SKIP), "search", "/bin/tool") == ""
    assert not_needed(record(None), "claim", None) == MISSING


def test_what_a_tool_found_is_a_failure_with_its_line() -> None:
    report = read_sanitizer((CAPTURED / "memcheck_overrun.txt").read_text())
    found = concluded({"memcheck": report, "racecheck": CLEAN}, CASE, 1.0)
    assert (found.verdict, found.reason) == (Verdict.FAIL, Reason.SANITIZER)
    assert "overrun" in found.detail and "line 4" in found.detail
    assert isinstance(found.facts, SanitizerFacts)
    assert found.facts.tools == ("memcheck", "racecheck")
    assert found.facts.findings == report.findings


RACE = Finding(checker=Checker.RACE, message="Race reported between Write access and Read access")
TRAP = Finding(checker=Checker.TRAP, message="Warp Illegal Instruction")


@pytest.mark.parametrize(
    "reports",
    [
        {"memcheck": CLEAN, "racecheck": SanitizerReport((RACE,), 1)},
        {"memcheck": CLEAN, "synccheck": SanitizerReport((TRAP,), 1)},
        {"memcheck": SanitizerReport((TRAP,), 1)},
    ],
)
def test_whatever_is_not_about_bounds_informs_and_decides_nothing(reports: dict[str, SanitizerReport]) -> None:
    """The tools are wrong about wgmma."""
    found = concluded(reports, CASE, 1.0)
    assert found.verdict is Verdict.PASS
    assert isinstance(found.facts, SanitizerFacts) and len(found.facts.findings) == 1


def test_bounds_are_watched_for_more_than_thirty_calls() -> None:
    """A kernel may read out of bounds after some calls only. A call with failure is the last."""
    seen: list[bytes] = []

    class Talk:
        def __init__(self, good: int) -> None:
            self.good = good

        def load(self, _artifact: Path) -> WorkerReply:
            return WorkerReply(Status.DONE, 0, 0.0, "", ())

        def call(self, payload: bytes) -> WorkerReply:
            seen.append(payload)
            return WorkerReply(Status.DONE if len(seen) < self.good else Status.CUDA_ERROR, 0, 0.0, "", ())

    assert CALLS[DECIDING] > 30
    assert call_repeatedly(cast(Conversation, Talk(100)), Path(), b"call", CALLS[DECIDING]).status is Status.DONE
    assert seen == [b"call"] * CALLS[DECIDING]
    seen.clear()
    assert call_repeatedly(cast(Conversation, Talk(3)), Path(), b"call", 9).status is Status.CUDA_ERROR
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("reports", "verdict"),
    [({"memcheck": CLEAN, "racecheck": CUT}, Verdict.PASS), ({"memcheck": CUT, "racecheck": CUT}, Verdict.SKIP)],
)
def test_a_tool_that_did_not_end_proves_nothing(reports: dict[str, SanitizerReport], verdict: Verdict) -> None:
    found = concluded(reports, CASE, 1.0)
    assert found.verdict is verdict
    if verdict is Verdict.SKIP:
        assert "Unable to launch" in found.detail


def test_a_summary_that_a_candidate_printed_before_a_flood_proves_nothing() -> None:
    forged = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n" + "x" * 100
    stopped = Failure(Reason.CRASH, "The candidate was stopped: it printed more than 1 MiB.")
    assert read_run(Observation(None, output=forged)).errors == 0
    assert read_run(Observation(stopped, output=forged)).errors is None
    found = read_run(Observation(stopped, output=(CAPTURED / "memcheck_overrun.txt").read_text()))
    assert concluded({"memcheck": found}, CASE, 1.0).verdict is Verdict.FAIL, "what was found counts"
