"""The check stage over a session: stops at the first fault, keeps what is needed to make it again."""

from collections.abc import Callable
from itertools import count

import pytest
import torch

from warpsmith.evaluation.check import PlanScope, plan_steps
from warpsmith.evaluation.check.run import TIMED_IN, Checked, CheckSubject, check
from warpsmith.machines.cuda.machine import LIMITS as CUDA_LIMITS
from warpsmith.machines.virtual.machine import LIMITS
from warpsmith.machines.worker.fake_session import FakeSession
from warpsmith.machines.worker.session import Shown
from warpsmith.records import CheckFacts, Direction, Family, Reason, Verdict
from warpsmith.tasks.host import open_task
from warpsmith.tasks.inputs.values import Values

torch.set_num_threads(1)
OPENED = open_task("swiglu")
SUBJECT = CheckSubject(OPENED.describe(), Direction.FORWARD, OPENED.problem)
STEPS = plan_steps(SUBJECT.task, Direction.FORWARD, PlanScope(heldout_work=1e5), 7)
Answer = Callable[[Values], Shown]


def honest(arguments: Values) -> Shown:
    gate, up = arguments
    assert isinstance(gate, torch.Tensor) and isinstance(up, torch.Tensor)
    return Shown(None, (torch.nn.functional.silu(gate) * up,))


def checked(answer: Answer) -> Checked:
    return check(SUBJECT, STEPS, FakeSession(answer), LIMITS)


def checked_on_normal(answer: Answer) -> Checked:
    """Only on inputs that no two draws share a part of."""
    steps = [step for step in STEPS if step.trial.family is Family.NORMAL]
    return check(SUBJECT, steps, FakeSession(answer), LIMITS)


def facts(found: Checked) -> CheckFacts:
    assert isinstance(found.result.facts, CheckFacts)
    return found.result.facts


def test_an_honest_kernel_is_called_as_often_as_planned() -> None:
    session = FakeSession(honest)
    found = check(SUBJECT, STEPS, session, LIMITS)
    assert found.result.verdict is Verdict.PASS, found.result.detail
    assert session.slots == [step.slot for step in STEPS]
    assert sum(case.calls for case in facts(found).cases) == len(STEPS) == len(found.seen)
    assert any(case.deterministic for case in facts(found).cases)


def test_few_calls_wait_for_a_cold_cache_and_none_by_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do are drawn: device code that knows a cold cache from a warm one knows no timed call by it."""
    drawn = iter([0, 3, 1, 0] * len(STEPS))
    monkeypatch.setattr(
        "warpsmith.evaluation.check.run.secrets.randbelow", lambda most: next(drawn) if most == TIMED_IN else 0
    )
    session = FakeSession(honest)
    check(SUBJECT, STEPS[:10], session, LIMITS)
    assert session.clocked == 5


def test_a_streak_of_slow_calls_on_a_gpu_is_cut_short() -> None:
    """A kernel of a second a call would keep the GPU from the others for minutes; all other calls are made."""
    clock = count(step=1.0).__next__
    streak, rest = ([step for step in STEPS if step.streak is of] for of in (True, False))
    assert len(streak) > 100 and rest
    found = check(SUBJECT, STEPS, FakeSession(honest, device="cuda"), CUDA_LIMITS, clock)
    assert found.result.verdict is Verdict.PASS
    made = int(CUDA_LIMITS.streak_s or 0) + 1
    assert len(found.seen) == len(rest) + made
    assert found.result.detail.startswith(f"{len(streak) - made} calls were left out")
    whole = check(SUBJECT, STEPS, FakeSession(honest, device="vgpu"), LIMITS, clock)
    assert (len(whole.seen), whole.result.detail) == (len(STEPS), "")


def test_a_fault_ends_it_with_the_draw_that_showed_it() -> None:
    calls = 0

    def wrong_at_last(arguments: Values) -> Shown:
        nonlocal calls
        calls += 1
        shown = honest(arguments)
        return shown if calls < 10 else Shown(None, (shown.results[0] + 1,))

    found = checked(wrong_at_last)
    assert found.result.reason is Reason.WRONG_VALUE
    assert facts(found).failed == STEPS[9].trial and "call 10)" in found.result.detail
    assert sum(case.calls for case in facts(found).cases) == 9


def test_a_result_kept_from_the_first_call_is_wrong_at_once() -> None:
    kept: list[Shown] = []

    def replay(arguments: Values) -> Shown:
        kept.append(honest(arguments))
        same = [old for old in kept if old.results[0].shape == kept[-1].results[0].shape]
        return same[0]

    assert checked(replay).result.verdict is Verdict.FAIL


def test_a_cache_by_sums_is_seen_through_by_the_shuffled_draw() -> None:
    kept: dict[tuple[float, ...], Shown] = {}

    def by_sum(arguments: Values) -> Shown:
        parts = [part for part in arguments if isinstance(part, torch.Tensor)]
        key = tuple(round(float(part.double().sum()), 3) for part in parts)
        return kept.setdefault((*key, *parts[0].shape), honest(arguments))

    found = checked_on_normal(by_sum)
    assert found.result.reason is Reason.WRONG_VALUE
    failed = facts(found).failed
    assert failed is not None and failed.twist == "shuffled"


def test_a_cache_by_the_first_elements_is_seen_through_by_one_changed_element() -> None:
    kept: dict[tuple[float, ...], Shown] = {}

    def by_head(arguments: Values) -> Shown:
        parts = [part for part in arguments if isinstance(part, torch.Tensor)]
        key = tuple(float(value) for part in parts for value in part.flatten()[:8])
        return kept.setdefault((*key, *parts[0].shape), honest(arguments))

    found = checked_on_normal(by_head)
    failed = facts(found).failed
    assert failed is not None and failed.twist in ("nudged", "peaked")


def test_noise_is_told_as_not_deterministic_and_not_as_wrong() -> None:
    def noisy(arguments: Values) -> Shown:
        (result,) = honest(arguments).results
        flipped = torch.where(torch.rand(result.shape) < 0.5, result, torch.nextafter(result, result + 1))
        return Shown(None, (flipped,))

    found = checked(noisy)
    assert found.result.verdict is Verdict.PASS, found.result.detail
    assert False in {case.deterministic for case in facts(found).cases}
