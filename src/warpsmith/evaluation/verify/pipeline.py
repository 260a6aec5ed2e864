"""The verifiers, in order of price."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from warpsmith.evaluation.config import EvaluationConfig, machine_for
from warpsmith.evaluation.run import PreparedEvaluation, begin_evaluation, run
from warpsmith.evaluation.stages import SCREEN, Products
from warpsmith.evaluation.verify.aggregate import REVIEWER, Decision, Signal, Weights, decide, load_weights
from warpsmith.evaluation.verify.review import (
    Review,
    ReviewedKernel,
    ReviewerRole,
    UnusableReview,
    objection,
    read_review,
    review_prompt,
)
from warpsmith.llm import ModelAnswer, ModelError, Prompt
from warpsmith.machines import Machine
from warpsmith.machines.virtual import VirtualMachine
from warpsmith.records import Candidate, Model, StageResult, StaticFacts, Verdict
from warpsmith.tasks.host import OpenTask

Ask: TypeAlias = Callable[[Sequence[Prompt]], Sequence[ModelAnswer | ModelError]]
SPOKEN = (Verdict.PASS, Verdict.FAIL)  # a skip, and a fault of ours, say nothing of the candidate


VIRTUAL = EvaluationConfig(device=VirtualMachine.kind)


@dataclass(frozen=True)
class Verifiers:
    """The verifiers to run, their weights and the model."""

    config: EvaluationConfig = VIRTUAL  # of the evaluation that comes afterwards
    machine: Machine | None = None  # where it takes place; None: the one that the configuration names
    virtual: bool = True
    roles: tuple[ReviewerRole, ...] = ()
    ask: Ask | None = None  # needed where there are roles
    weights: Weights | None = None  # of the last calibration unless given


class Verified(Model):
    """A candidate's decision, with all evidence."""

    candidate: str  # its id
    decision: Decision
    results: tuple[StageResult, ...] = ()
    reviews: tuple[Review, ...] = ()
    bad_answers: tuple[UnusableReview, ...] = ()
    usd: float = 0.0  # spent on reviewers
    prepared: PreparedEvaluation | None = None  # to be resumed where the candidate is worth a GPU
    seconds: float = 0.0

    @property
    def go(self) -> bool:
        """Whether the candidate is worth a GPU."""
        return self.decision.go

    @property
    def wrong(self) -> float:
        """The probability of being wrong, which ranks candidates."""
        return self.decision.wrong

    @property
    def stopped_by(self) -> StageResult | None:
        """The failed stage, or None."""
        return next((result for result in self.results if result.verdict is Verdict.FAIL), None)

    def evidence(self) -> str:
        """Return the evidence as text for a repair."""
        failed = self.stopped_by
        lines = [f"{failed.stage}: {failed.reason}: {failed.detail}"] if failed else []
        lines += [result.detail for result in self.results if _shows_signs(result)]
        lines += [objection(review) for review in self.reviews if review.objects]
        return "\n".join(lines)


def verify(
    candidate: Candidate, opened: OpenTask, seed: int | None = None, verifiers: Verifiers | None = None
) -> Verified:
    """Run the verifiers on a candidate, cheapest first."""
    # Reviewers cost money and run only if the tools let the candidate pass. `seed` draws the calls on the
    # virtual GPU and is secret unless given.
    chosen, started, task = verifiers or Verifiers(), time.perf_counter(), opened.describe()
    weights = chosen.weights or load_weights()
    prepared = _screen(candidate, opened, seed, chosen)
    results = prepared.record.results
    signals = [_signal(result) for result in results if result.verdict in SPOKEN]
    decision = decide(signals, weights)
    reviews: tuple[Review | UnusableReview, ...] = ()
    usd = 0.0
    if decision.go and chosen.roles and chosen.ask:
        reviews, usd = _reviewed(ReviewedKernel(candidate, task, results), chosen.roles, chosen.ask)
        heard = [_opinion(one) for one in reviews if isinstance(one, Review)]
        decision = decide([*signals, *heard], weights)
    return Verified(
        candidate=candidate.id,
        decision=decision,
        results=results,
        reviews=tuple(one for one in reviews if isinstance(one, Review)),
        bad_answers=tuple(one for one in reviews if isinstance(one, UnusableReview)),
        usd=usd,
        prepared=prepared,
        seconds=time.perf_counter() - started,
    )


def signals_of(verified: Verified) -> tuple[Signal, ...]:
    """Return each verifier's signal."""
    spoken = (_signal(result) for result in verified.results if result.verdict in SPOKEN)
    return (*spoken, *(_opinion(review) for review in verified.reviews))


def _screen(candidate: Candidate, opened: OpenTask, seed: int | None, chosen: Verifiers) -> PreparedEvaluation:
    """Run the stages that need no real GPU."""
    machine = chosen.machine or machine_for(chosen.config)
    evaluation, products = begin_evaluation(candidate, opened, chosen.config, machine, seed), Products()
    record = run(evaluation, SCREEN if chosen.virtual else SCREEN[:-1], products)
    return PreparedEvaluation.of(evaluation, record, products)


def _reviewed(
    subject: ReviewedKernel, roles: Sequence[ReviewerRole], ask: Ask
) -> tuple[tuple[Review | UnusableReview, ...], float]:
    """Return the reviews of all roles and their price."""
    answers = ask([review_prompt(subject, role) for role in roles])
    pairs = list(zip(roles, answers, strict=True))
    usd = sum(answer.usd or 0.0 for answer in answers if isinstance(answer, ModelAnswer))
    return tuple(_read(role, answer) for role, answer in pairs), usd


def _read(role: ReviewerRole, answer: ModelAnswer | ModelError) -> Review | UnusableReview:
    """Return a role's review, or the reason without one."""
    if isinstance(answer, ModelError):
        return UnusableReview(role=role, error=f"The model gave no answer: {answer}")
    if answer.is_refused:
        return UnusableReview(role=role, error="The model refused.", excerpt=answer.text)
    return read_review(answer.text, role)


def _signal(result: StageResult) -> Signal:
    """Return a stage's signal."""
    objects = result.verdict is Verdict.FAIL or _shows_signs(result)
    return Signal(verifier=result.stage, objects=objects)


def _shows_signs(result: StageResult) -> bool:
    """Return whether a static result has findings."""
    return isinstance(result.facts, StaticFacts) and bool(result.facts.findings)


def _opinion(review: Review) -> Signal:
    """Return a review's signal."""
    return Signal(verifier=f"{REVIEWER}{review.role}", objects=review.objects, confidence=review.confidence)
