"""The check stage: make the planned calls in order; the first failure decides."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import torch

from warpsmith.evaluation.check.compare import Comparison
from warpsmith.evaluation.check.fault import check_call, error_findings
from warpsmith.evaluation.check.plan import PlannedCall
from warpsmith.evaluation.check.seen import PassedCall, called_cases
from warpsmith.evaluation.check.threads import one_thread
from warpsmith.languages import find_language
from warpsmith.machines import CheckLimits
from warpsmith.machines.virtual import Facts
from warpsmith.machines.worker import Mode, Session, Shown
from warpsmith.records import (
    Case,
    CaseCheck,
    CheckFacts,
    Direction,
    Failure,
    Finding,
    Language,
    StageResult,
    Task,
    Trial,
    Verdict,
)
from warpsmith.tasks.inputs import KeyedRandom, input_seed
from warpsmith.tasks.reference import Problem

STAGE = "check"
MODES = (Mode.IDLE, Mode.QUEUED)
CONFIRMED_BY = 3  # more secret inputs, where a slice is hardly beyond its bound
TIMED_IN = 4  # one of so many calls is made as a timed one is, so that a kernel cannot tell a cold cache for a clock
Solve = Callable[[Direction, Trial], Problem]


@dataclass(frozen=True)
class CheckSubject:
    """One direction of a task, the function that solves its test inputs, and the language of the kernel."""

    task: Task
    direction: Direction
    solve: Solve
    language: str = Language.TORCH


@dataclass(frozen=True)
class Checked:
    """The result of a check, the passed calls, and of a failed call the comparison and the counters."""

    result: StageResult
    seen: tuple[PassedCall, ...]
    failed: Comparison | None = None
    failed_facts: Facts | None = None


@dataclass
class _Notes:
    """The calls that passed, and the results of test inputs that come again."""

    again: frozenset[str] = frozenset()
    seen: list[PassedCall] = field(default_factory=list)
    results: dict[str, tuple[torch.Tensor, ...]] = field(default_factory=dict)
    repeats: dict[str, bool] = field(default_factory=dict)

    def take(self, step: PlannedCall, shown: Shown, worst: float) -> None:
        """Store a call that passed, with its repeats."""
        self.seen.append(PassedCall(step, worst, shown.facts))
        name, key = step.trial.case.name, step.trial.text()
        if step.again and key in self.results:
            self.repeats[name] = self.repeats.get(name, True) and _has_equal_bits(self.results[key], shown.results)
        if key in self.again:
            self.results[key] = shown.results


class _Solved:
    """A cache of solved problems: a few test inputs come again."""

    def __init__(self, subject: CheckSubject, steps: Sequence[PlannedCall]) -> None:
        self._subject, self._kept = subject, dict[str, Problem]()
        self._left = Counter(step.trial.text() for step in steps)

    def problem(self, step: PlannedCall) -> Problem:
        """Return a call's problem, dropped after its last use."""
        key = step.trial.text()
        found = self._kept.pop(key, None) or self._subject.solve(self._subject.direction, step.trial)
        self._left[key] -= 1
        if self._left[key]:
            self._kept[key] = found
        return found


def check(
    subject: CheckSubject,
    steps: Sequence[PlannedCall],
    session: Session,
    limits: CheckLimits,
    clock: Callable[[], float] = time.monotonic,
) -> Checked:
    """Make the calls in order until one fails."""
    with one_thread() if limits.one_thread else nullcontext():
        return _check(subject, steps, session, limits.streak_s, clock)


def _check(
    subject: CheckSubject,
    steps: Sequence[PlannedCall],
    session: Session,
    longest_streak_s: float | None,
    clock: Callable[[], float],
) -> Checked:
    """Make the calls in order until one fails.

    Calls of a streak end after `longest_streak_s` seconds.
    """
    started, solved = time.perf_counter(), _Solved(subject, steps)
    notes = _Notes(frozenset(step.trial.text() for step in steps if step.again))
    streak_s, left_out = 0.0, 0
    for step in steps:
        if step.streak and longest_streak_s is not None and streak_s > longest_streak_s:
            left_out += 1
            continue
        problem, begin = solved.problem(step), clock()
        shown, looked = _call(subject, step, problem, session, len(notes.seen))
        streak_s += clock() - begin if step.streak else 0.0
        if looked.near:
            step, shown, looked = _confirm_on_more_inputs(subject, step, shown, looked, session)
        if looked.failure is not None:
            result = _failed_result(looked.failure, step, error_findings(shown), notes, session.device, started)
            return Checked(result, tuple(notes.seen), looked, shown.facts)
        notes.take(step, shown, looked.worst)
    facts = CheckFacts(device=session.device, cases=_cases(notes))
    result = StageResult(
        stage=STAGE,
        verdict=Verdict.PASS,
        detail=f"{left_out} calls were left out of a streak that took {streak_s:.1f} s" if left_out else "",
        facts=facts,
        seconds=time.perf_counter() - started,
    )
    return Checked(result, tuple(notes.seen))


def _call(
    subject: CheckSubject, step: PlannedCall, problem: Problem, session: Session, number: int
) -> tuple[Shown, Comparison]:
    """Make and check one call."""
    given = find_language(subject.language).passed_results(problem.native)
    mode = MODES[number % len(MODES)]  # by turns: a result that is late shows behind the gate alone
    timed = secrets.randbelow(TIMED_IN) == 0
    shown = session.call(problem.arguments, given=given, slot=step.slot, mode=mode, timed=timed)
    return shown, check_call(shown, problem, subject.task, subject.direction, step.trial)


def _confirm_on_more_inputs(
    subject: CheckSubject, step: PlannedCall, shown: Shown, looked: Comparison, session: Session
) -> tuple[PlannedCall, Shown, Comparison]:
    """Repeat a call on three more secret inputs.

    Return the first failed call, else the given one as passed. An honest kernel whose error is beyond a slice's bound
    by chance is within it for other inputs.
    """
    source = KeyedRandom(step.trial.seed, "confirm")
    for number in range(CONFIRMED_BY):
        trial = step.trial.model_copy(update={"seed": input_seed(source)})
        other = replace(step, trial=trial, again=False, streak=False)
        problem = subject.solve(subject.direction, trial)
        again, found = _call(subject, other, problem, session, number)
        if found.failure is not None:
            return other, again, found
    return step, shown, replace(looked, failure=None)


def _has_equal_bits(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Return whether two results are equal bit by bit, NaN included."""
    pairs = zip(first, second, strict=True)
    return all(torch.equal(_bits(one), _bits(other)) for one, other in pairs)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _failed_result(
    failure: Failure, step: PlannedCall, findings: Sequence[Finding], notes: _Notes, device: str, started: float
) -> StageResult:
    """Return the stage result of a failed call."""
    trial = step.trial
    where = f"{trial.case.name}, {trial.draw}, call {len(notes.seen) + 1}"
    facts = CheckFacts(device=device, cases=_cases(notes), failed=trial, findings=tuple(findings))
    return StageResult(
        stage=STAGE,
        verdict=failure.reason.verdict,
        reason=failure.reason,
        detail=f"{failure.detail} ({where})",
        facts=facts,
        seconds=time.perf_counter() - started,
    )


def _cases(notes: _Notes) -> tuple[CaseCheck, ...]:
    """Return the checks of each case."""
    return tuple(_case(case, notes) for case in called_cases(notes.seen))


def _case(case: Case, notes: _Notes) -> CaseCheck:
    """Return the checks of one case."""
    errors = [one.worst for one in notes.seen if one.step.trial.case.name == case.name]
    return CaseCheck(case=case, calls=len(errors), worst=max(errors), deterministic=notes.repeats.get(case.name))
