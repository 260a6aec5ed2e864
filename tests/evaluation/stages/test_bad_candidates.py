"""Candidates that do everything but compute: a verdict each, in time, and the next one is judged as ever."""

from pathlib import Path

import pytest

from warpsmith.evaluation import EvaluationConfig, evaluate
from warpsmith.records import CheckFacts, Defence, Reason, Record, Verdict

SOURCE = (Path(__file__).parent / "deeds.cu").read_text()
BARE = frozenset({Defence.LINK})  # or the linker's list would refuse them before they run
TENSORS = """
#include <torch/extension.h>
std::vector<torch::Tensor> forward(torch::Tensor x, int64_t kernel, int64_t stride, int64_t padding) {
  return std::vector<torch::Tensor>(COUNT, torch::zeros_like(x));
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


def graded(deed: int, call_s: float = 30.0) -> Record:
    config = EvaluationConfig(device="vgpu", without=BARE, call_s=call_s)
    return evaluate("max_pool", SOURCE, macros={"DEED": str(deed)}, config=config)


@pytest.fixture(scope="module")
def ready() -> None:
    """Native parts are built, once for this machine: that is not a candidate's time."""
    assert graded(0).concluded is Verdict.PASS


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("deed", "reasons"),
    [
        pytest.param(1, {Reason.CRASH}, id="crash"),
        pytest.param(2, {Reason.TIME_LIMIT}, id="hang"),
        pytest.param(3, {Reason.BAD_ANSWER}, id="exit"),
        pytest.param(4, {Reason.CRASH, Reason.TIME_LIMIT, Reason.MEMORY_LIMIT}, id="fork"),
        pytest.param(5, {Reason.MEMORY_LIMIT, Reason.CRASH}, id="memory"),
        pytest.param(6, {Reason.CRASH}, id="print"),
        pytest.param(7, {Reason.CRASH, Reason.BAD_ANSWER}, id="corrupt"),
        pytest.param(9, {Reason.INSTRUCTION_BUDGET, Reason.TIME_LIMIT}, id="endless-kernel"),
        pytest.param(10, {Reason.MEMORY_LIMIT}, id="device-memory"),
    ],
)
def test_a_deed_has_its_verdict(deed: int, reasons: set[Reason]) -> None:
    record = graded(deed, call_s=5.0 if deed in (2, 4) else 30.0)
    assert record.concluded is Verdict.FAIL
    assert record.results[-1].stage == "check" and record.results[-1].reason in reasons, record.results[-1].detail


def test_the_next_candidate_is_judged_as_ever() -> None:
    assert graded(1).concluded is Verdict.FAIL
    honest = graded(0)
    assert honest.concluded is Verdict.PASS, honest.results[-1].detail
    facts = honest.results[2].facts
    assert isinstance(facts, CheckFacts) and sum(case.calls for case in facts.cases) > 100


def test_a_kill_of_the_parent_and_of_everybody_reaches_nobody() -> None:
    record = graded(8)
    assert record.concluded is Verdict.PASS, record.results[-1].detail


@pytest.mark.parametrize("count", [0, 2, 70])
def test_too_few_and_too_many_tensors_are_a_bad_answer(count: int) -> None:
    record = evaluate("max_pool", TENSORS, macros={"COUNT": str(count)}, config=EvaluationConfig(device="vgpu"))
    assert record.concluded is Verdict.FAIL
    assert record.results[-1].reason is Reason.BAD_ANSWER, record.results[-1].detail
