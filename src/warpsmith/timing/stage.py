"""The timing stage on a real GPU: every case sampled, held against the best of torch, doubted where there is reason."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from warpsmith.compile import Toolchain
from warpsmith.records import (
    MODES,
    Case,
    CaseTiming,
    Ceilings,
    Direction,
    Group,
    Reason,
    StageResult,
    Task,
    TimingFacts,
    Trial,
    Verdict,
)
from warpsmith.sandbox.cuda_session import CALL_S, CudaSession, room_for_all
from warpsmith.sandbox.observation import Trouble
from warpsmith.tasks.fresh import outline, problems
from warpsmith.tasks.opened import OpenTask
from warpsmith.tasks.program import Problem
from warpsmith.tasks.values import tensors
from warpsmith.timing.baselines import (
    Baselines,
    Host,
    asked,
    believed,
    completed,
    host_for,
    keep,
    measure,
    measure_again,
    store,
    uncompiled,
)
from warpsmith.timing.null import Form, l2_bytes, measure_null
from warpsmith.timing.rules import Doubt, Floor
from warpsmith.timing.sample import Examine, Manner, Null, Samples, sample
from warpsmith.timing.stop import StopRule
from warpsmith.timing.verdict import Bench, Judged, judged, least

STAGE = "timing"
Tier = Literal["search", "claim"]
Cache = Literal["cold", "warm"]
CLOCKED = {Reason.CLOCKS_DISAGREE, Reason.HIDDEN_WORK}  # doubts that hang on the zero of the clocks
# A search asks many candidates a rough question, a claim one candidate a fine one.
RULES = {
    "search": StopRule(width=0.01, least=5, most=31, seconds=0.2),
    "claim": StopRule(width=0.005, least=15, most=101, seconds=3.0),
}


@dataclass(frozen=True)
class Subject:
    """A compiled candidate and what it is for."""

    opened: OpenTask
    target: str
    task: Task
    direction: Direction
    artifact: Path
    plain: bool
    launches: int  # a call's, as the virtual GPU counted them

    def calls(self, case: Case) -> Iterator[Problem]:
        """Endless fresh calls of a case."""
        return problems(self.opened, self.direction, Trial(case=case), secrets.randbits(31), "cuda")

    def outline(self, case: Case) -> Problem:
        """The shapes of such a call."""
        return outline(self.opened, self.direction, Trial(case=case))


class Sitting:
    """The processes of one candidate under the clock: two workers, the second a fresh one, and torch beside them.

    `outlines` are calls of its cases, by name, of which only the shapes matter.
    """

    def __init__(self, subject: Subject, runtime: Path, outlines: Mapping[str, Problem], call_s: float) -> None:
        self._subject, self._runtime, self.outlines, self._call_s = subject, runtime, outlines, call_s
        self._room = room_for_all(outlines.values())
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @cached_property
    def first(self) -> CudaSession:
        """The worker of the first window."""
        return self._session()

    @cached_property
    def second(self) -> CudaSession:
        """A fresh one: a winner is timed again here before it is called so."""
        return self._session()

    @cached_property
    def torch(self) -> Host:
        """The resident baselines."""
        return host_for(self._subject.target, self._open)

    def _session(self) -> CudaSession:
        subject = self._subject
        return self._open.enter_context(
            CudaSession(subject.artifact, subject.direction.value, self._runtime, self._room, self._call_s)
        )


class Zeros:
    """What does not depend on a candidate: the null candidate's clocks and the floor of this GPU, measured once.

    A machine can fall into another gait for minutes; whoever doubts the zero has it measured again.
    """

    def __init__(self, toolchain: Toolchain, ceilings: Ceilings) -> None:
        self.toolchain, self._ceilings = toolchain, ceilings
        self._nulls: dict[Form, Null] = {}

    @cached_property
    def floor(self) -> Floor:
        """No call is shorter than one launch."""
        return Floor(self._ceilings, self.null(Form(1, 1)).queued_us, l2_bytes())

    def null(self, form: Form) -> Null:
        """The zero of the calls of a form."""
        if form not in self._nulls:
            self.again(form)
        return self._nulls[form]

    def again(self, form: Form) -> None:
        """Measure it anew."""
        self._nulls[form] = measure_null(self.toolchain, form)

    def bench(self, form: Form) -> Bench:
        """Both."""
        return Bench(self.null(form), self.floor)


@dataclass(frozen=True)
class Timer:
    """Times candidates on this GPU."""

    zeros: Zeros
    hardware: str
    torch_version: str
    tier: Tier = "search"
    cache: Cache = "cold"
    modes: tuple[str, ...] = MODES
    call_s: float = CALL_S

    def stage(self, subject: Subject, cases: Sequence[Case], examine: Callable[[Case], Examine]) -> StageResult:
        """The result of timing all cases; the first wrong output or doubt decides the verdict."""
        begin = time.monotonic()
        found: list[CaseTiming] = []
        with self.sitting(subject, cases) as sitting:
            for case in cases:
                outcome = self.time_case(subject, case, examine(case), sitting)
                if isinstance(outcome, Trouble):
                    return self._result(begin, found, Verdict.FAIL, outcome)
                found.append(outcome.timing)
                if outcome.doubts:
                    return self._result(begin, found, Verdict.QUARANTINE, outcome.doubts[0])
        return self._result(begin, found, Verdict.PASS, None)

    def sitting(self, subject: Subject, cases: Sequence[Case]) -> Sitting:
        """Room for the largest of the cases."""
        outlines = {case.name: subject.outline(case) for case in cases}
        return Sitting(subject, self.zeros.toolchain.runtime.parent, outlines, self.call_s)

    def time_case(self, subject: Subject, case: Case, examine: Examine, sitting: Sitting) -> Judged | Trouble:
        """A, or A B B A for a claim; what seems too good in a fresh process as well.

        Where the clocks disagree, the samples are held against a zero that is more alike, set anew.
        """
        outline, calls = sitting.outlines[case.name], subject.calls(case)
        form = Form(subject.launches, len(outline.native))
        once = sample(sitting.first, calls, examine, self._manner(subject, form))
        if isinstance(once, Trouble):
            return once
        baselines = self._baselines(subject, case, sitting, once.flush_us)
        bounds = least(subject.task, subject.direction, case, outline, self.zeros.floor)

        def conclude(windows: Sequence[Samples]) -> Judged:
            return judged(case, windows, baselines, self.zeros.bench(form), bounds, subject.launches)

        outcome = conclude([once])
        if CLOCKED & outcome.reasons:
            moved_bytes = sum(one.nbytes for one in (*tensors(outline.arguments), *outline.native))
            form = replace(form, moved_bytes=moved_bytes)
            self.zeros.again(form)
            outcome = conclude([once])
        if CLOCKED & outcome.reasons or (self.tier == "search" and Reason.TOO_GOOD not in outcome.reasons):
            return outcome
        again = sample(sitting.second, calls, examine, self._manner(subject, form))
        return again if isinstance(again, Trouble) else conclude([once, again])

    def _manner(self, subject: Subject, form: Form) -> Manner:
        return Manner(RULES[self.tier], self.cache == "cold", subject.plain, self.zeros.null(form))

    def _baselines(self, subject: Subject, case: Case, sitting: Sitting, flush_us: float) -> Baselines:
        """Those of an earlier day, unless the GPU has drifted since; for a claim two windows now of what came near.

        A shape that was drawn for this evaluation comes never again: nothing is compiled for it, and nothing kept.
        """
        cold = self.cache == "cold"
        request = asked(subject.target, subject.task, subject.direction, case, cold)
        if case.group is Group.HELDOUT:
            return measure(sitting.torch, request, uncompiled(self.modes))
        path = store(self.hardware, self.torch_version, subject.task, subject.direction, case, cold)
        kept = believed(path, flush_us)
        if kept is None or kept.lacking(self.modes):
            kept = completed(sitting.torch, request, kept, self.modes, flush_us)
            keep(path, kept)
        chosen = kept.only(self.modes)
        return chosen if self.tier == "search" else measure_again(sitting.torch, request, chosen)

    def _result(
        self, begin: float, cases: list[CaseTiming], verdict: Verdict, why: Trouble | Doubt | None
    ) -> StageResult:
        return StageResult(
            stage=STAGE,
            verdict=verdict,
            reason=why.reason if why else None,
            detail=why.detail if why else "",
            facts=TimingFacts(tier=self.tier, cache=self.cache, cases=tuple(cases)),
            seconds=time.monotonic() - begin,
        )
