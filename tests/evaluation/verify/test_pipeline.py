"""Verifiers in order of price on real kernels: what stops, what goes on, and what a repair gets to read."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import warpsmith
from warpsmith.evaluation.verify import Verifiers, verify
from warpsmith.evaluation.verify.aggregate import shipped_weights
from warpsmith.evaluation.verify.pipeline import Ask, Verified, signals_of
from warpsmith.evaluation.verify.review import ReviewerRole
from warpsmith.llm import FinishReason, ModelAnswer, ModelError, Prompt
from warpsmith.machines.cuda.machine import CudaMachine
from warpsmith.machines.hardware import Gpu
from warpsmith.records import Candidate, CompileFacts, Direction, Language, Reason, Verdict
from warpsmith.tasks.host import open_task

torch.set_num_threads(1)
SEED = 20250914
SOURCE = (Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.plain.cu").read_text()
PLAIN = Candidate(task="swiglu", direction=Direction.FORWARD, source=SOURCE, language=Language.PLAIN)


def looked(source: str = SOURCE, **chosen: object) -> Verified:
    verifiers = Verifiers(weights=shipped_weights(), **chosen)  # type: ignore[arg-type]
    with open_task("swiglu") as opened:
        return verify(PLAIN.model_copy(update={"source": source}), opened, SEED, verifiers)


def answering(verdict: str, confidence: float = 1.0, usd: float = 0.25) -> Ask:
    text = json.dumps({"verdict": verdict, "confidence": confidence, "line": 3, "why": "w", "fix": "f"})

    def ask(prompts: Sequence[Prompt]) -> list[ModelAnswer | ModelError]:
        return [ModelAnswer(text=text, model="m", usd=usd) for _ in prompts]

    return ask


def stages(verified: Verified) -> list[str]:
    return [result.stage for result in verified.results]


def test_a_right_kernel_goes_on_with_small_odds() -> None:
    found = looked()
    assert found.go and found.wrong < 0.2 and found.stopped_by is None
    assert stages(found) == ["static", "compile", "virtual"] and found.evidence() == ""
    assert [signal.objects for signal in signals_of(found)] == [False, False, False]


def test_what_does_not_compile_is_stopped_there() -> None:
    found = looked(SOURCE.replace("threadIdx.x", "thread_index", 1))
    assert not found.go and stages(found) == ["static", "compile"]
    assert found.stopped_by is not None and found.stopped_by.reason is Reason.COMPILE_ERROR
    assert "thread_index" in found.evidence()


def test_a_wrong_value_is_seen_on_the_virtual_gpu() -> None:
    wrong = SOURCE.replace("expf(", "exp2f(", 1)
    assert wrong != SOURCE
    found = looked(wrong)
    assert not found.go and found.wrong > 0.5
    assert found.stopped_by is not None and found.stopped_by.reason is Reason.WRONG_VALUE


def test_a_sign_is_evidence_and_goes_on() -> None:
    found = looked(SOURCE + "\n// honest\nvoid unused() { static int calls = 0; ++calls; }\n", virtual=False)
    assert found.go and found.evidence() == "signs: call_counter"
    assert found.wrong > looked(virtual=False).wrong


def test_reviewers_are_asked_last_and_their_fix_goes_into_the_repair() -> None:
    found = looked(roles=tuple(ReviewerRole), ask=answering("wrong"))
    assert len(found.reviews) == 4 and found.usd == pytest.approx(1.0)
    assert found.evidence().count("Fix: f") == 4
    assert found.wrong > looked(roles=tuple(ReviewerRole), ask=answering("right")).wrong


def test_nobody_is_paid_for_a_kernel_that_is_stopped_already() -> None:
    def never(prompts: Sequence[Prompt]) -> list[ModelAnswer | ModelError]:
        raise AssertionError("asked")

    assert not looked(SOURCE.replace("threadIdx.x", "thread_index", 1), roles=tuple(ReviewerRole), ask=never).go


def test_no_answer_a_refusal_and_nonsense_say_nothing() -> None:
    answers: list[ModelAnswer | ModelError] = [
        ModelError("no network"),
        ModelAnswer(text="I would rather not.", model="m", finish=FinishReason.REFUSAL),
        ModelAnswer(text="hm", model="m"),
    ]
    roles = (ReviewerRole.COMPILE, ReviewerRole.MEMORY, ReviewerRole.CHEATING)
    found = looked(virtual=False, roles=roles, ask=lambda prompts: answers)
    assert found.reviews == () and len(found.bad_answers) == 3
    assert found.decision == looked(virtual=False).decision
    assert [one.error for one in found.bad_answers[:2]] == [
        "The model gave no answer: no network",
        "The model refused.",
    ]


def test_a_verdict_can_be_kept_and_read_again() -> None:
    found = looked(virtual=False)
    assert Verified.parse(found.text()) == found
    assert all(result.verdict is Verdict.PASS for result in found.results)


def test_a_kernel_is_compiled_for_the_gpu_that_comes_after_and_tried_where_one_of_its_kind_is_modelled() -> None:
    found = looked(machine=CudaMachine(Gpu("a GPU", "580", 1, "8.6")))
    compiled, virtual = found.results[1:]
    assert isinstance(compiled.facts, CompileFacts) and compiled.facts.arch == "sm_86"
    assert found.go and virtual.verdict is Verdict.SKIP and "sm_86" in virtual.detail
