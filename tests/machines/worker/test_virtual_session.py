"""A session on the virtual GPU: what it sees of a call, and what it leaves to the candidate."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from warpsmith.base import HarnessError
from warpsmith.languages.nvcc import compile
from warpsmith.machines.virtual import Control, ExecutorSettings
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.machines.worker.session import Session, Shown
from warpsmith.records import Argument, ArgumentKind, Candidate, Direction, Language, Reason, Role, Signature

SIGNATURE = Signature(arguments=(Argument(name="x", kind=ArgumentKind.TENSOR, role=Role.INPUT),), results=("y",))
SMALL = ExecutorSettings(memory_bytes=1 << 28, wall_s=60)
X = torch.arange(1.0, 101.0)
Open = Callable[[str], VirtualSession]

PLAIN = """
#include <warpsmith/abi.h>
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = 2.0f * x[i];
}
extern "C" int forward(const DLTensor* x, DLTensor* out, cudaStream_t stream) {
  const int count = static_cast<int>(x->shape[0]);
  twice<<<1, 128, 0, stream>>>(static_cast<const float*>(x->data), static_cast<float*>(out->data), count - SKIPPED);
  return 0;
}
"""


def artifact_of(source: str, language: Language = Language.TORCH, **macros: str) -> Path:
    candidate = Candidate(task="t", direction=Direction.FORWARD, source=source, language=language, macros=macros)
    made = compile(candidate)
    assert made.artifact is not None, made.result.detail
    return made.artifact


@pytest.fixture(scope="module")
def opened() -> Open:
    artifact = artifact_of((Path(__file__).parent / "session_kernels.cu").read_text())
    return lambda entry: VirtualSession(artifact, entry, SIGNATURE, settings=SMALL, call_s=20)


def calls(opened: Open, entry: str, count: int = 1) -> list[Shown]:
    with opened(entry) as session:
        return [session.call((X + number,)) for number in range(count)]


def clean(shown: Shown) -> bool:
    wrong = shown.changed or shown.aliased or shown.unwritten or shown.overrun or not shown.settled
    return shown.failure is None and not wrong and shown.facts is not None and not shown.facts.findings


def test_an_honest_call_is_clean_every_time(opened: Open) -> None:
    for number, shown in enumerate(calls(opened, "forward", 3)):
        assert clean(shown), shown
        assert torch.equal(shown.results[0], 2 * (X + number))
        assert shown.facts is not None and sum(row.launches for row in shown.facts.kernels) == 1


def test_a_workspace_that_stays_is_nobody_s_business(opened: Open) -> None:
    for number, shown in enumerate(calls(opened, "workspace", 3)):
        assert clean(shown), shown
        assert torch.equal(shown.results[0], 4 * (X + number))


def test_the_candidate_s_state_lasts_over_calls(opened: Open) -> None:
    found = [float(shown.results[0][0] - X[0]) for shown in calls(opened, "counting", 3)]
    assert found == [1.0, 3.0, 5.0]  # the argument and the count each grow by one


def test_what_a_call_does_to_memory_shows(opened: Open) -> None:
    assert calls(opened, "in_place")[0].changed == (0,)
    assert calls(opened, "same")[0].aliased == (0,)
    assert calls(opened, "one_twice")[0].aliased == (1,)
    assert calls(opened, "hole")[0].unwritten == (0,)


def test_one_output_for_all_calls_takes_the_caller_s_earlier_result_away(opened: Open) -> None:
    first, second = calls(opened, "reused", 2)
    assert clean(first)
    assert second.aliased == (0,) and second.unwritten == () and torch.equal(second.results[0], 2 * (X + 1))


def test_a_result_of_an_earlier_call_is_seen_to_be_old(opened: Open) -> None:
    first, second = calls(opened, "stale", 2)
    assert clean(first) and torch.equal(first.results[0], 2 * X)
    assert second.unwritten == (0,) and second.aliased == ()
    assert not torch.equal(second.results[0], first.results[0])


def test_work_that_nobody_waits_for_is_late(opened: Open) -> None:
    (shown,) = calls(opened, "late")
    assert not shown.settled and shown.unwritten == (0,)
    assert shown.facts is not None and any(one.checker == "leak" for one in shown.facts.findings)


def test_an_overrun_is_found_where_it_happens(opened: Open) -> None:
    (shown,) = calls(opened, "past_the_end")
    assert shown.failure is not None and shown.failure.reason is Reason.FINDINGS
    assert shown.facts is not None and shown.facts.findings[0].line > 0


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("refuses", Reason.CANDIDATE_ERROR),
        ("crashes", Reason.CRASH),
        ("no_such_entry", Reason.NO_ENTRY),
    ],
)
def test_trouble_stays(opened: Open, entry: str, reason: Reason) -> None:
    first, second = calls(opened, entry, 2)
    assert first.failure is not None and first.failure.reason is reason
    assert second.failure == first.failure


@pytest.mark.parametrize(
    ("entry", "reason"), [("frees_earlier", Reason.INPUT_CHANGED), ("keeps_all", Reason.MEMORY_LIMIT)]
)
def test_the_judge_s_memory_taken_or_freed_between_calls_is_the_candidate_s_fault(
    opened: Open, entry: str, reason: Reason
) -> None:
    with opened(entry) as session:
        shown = [session.call((X,), slot=slot) for slot in (0, 1, 0)]
    assert shown[0].failure is None
    assert shown[2].failure is not None and shown[2].failure.reason is reason


def test_a_case_that_does_not_fit_is_our_fault(opened: Open) -> None:
    with opened("forward") as session, pytest.raises(HarnessError, match="use a smaller case"):
        session.call((torch.zeros((SMALL.memory_bytes // 4) + 1),))


def test_views_that_are_together_more_than_all_memory_are_not_copied(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, taken = Control.read, list[int]()
    monkeypatch.setattr(Control, "read", lambda line, at, count: [taken.append(count), read(line, at, count)][1])
    (shown,) = calls(opened, "views_of_all")
    assert shown.failure is not None and "together" in shown.failure.detail
    assert sum(taken) <= SMALL.memory_bytes


def test_a_call_that_hangs_is_ended(opened: Open) -> None:
    session = opened("hangs")
    session.call_s = 2
    with session:
        shown = session.call((X,))
    assert shown.failure is not None and shown.failure.reason is Reason.TIME_LIMIT


def test_what_went_to_the_host_is_counted(opened: Open) -> None:
    (shown,) = calls(opened, "to_host")
    assert shown.facts is not None and shown.facts.host_bytes == 4 * len(X)
    assert shown.facts.kernels == ()


def test_the_same_slot_is_the_same_address_and_another_is_not(opened: Open) -> None:
    with opened("forward") as session:
        for slot in (0, 1, 0):
            assert clean(session.call((X,), slot=slot))
        assert len(session._buffers) == 2


def test_every_element_type_and_an_empty_tensor_pass_through(opened: Open) -> None:
    with opened("same") as session:
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool):
            assert torch.equal(session.call((X.to(dtype),)).results[0], X.to(dtype))
        assert session.call((torch.empty(0, 3),)).results[0].shape == (0, 3)
        turned = torch.arange(6.0).reshape(2, 3).T
        assert session.call((turned,)).results[0].stride() == (1, 3)


@pytest.mark.parametrize(("skipped", "unwritten"), [("0", ()), ("1", (0,))])
def test_a_plain_candidate_writes_where_it_is_told(skipped: str, unwritten: tuple[int, ...]) -> None:
    session: Session = VirtualSession(
        artifact_of(PLAIN, Language.PLAIN, SKIPPED=skipped), "forward", SIGNATURE, settings=SMALL
    )
    with session:
        for _ in range(2):
            shown = session.call((X,), given=(X,))
            assert shown.failure is None and shown.aliased == () and shown.unwritten == unwritten
            assert torch.equal(shown.results[0][:-1], 2 * X[:-1])
