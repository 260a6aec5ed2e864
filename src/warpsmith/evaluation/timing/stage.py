"""The timing stage on a real GPU."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from warpsmith.evaluation.timing.baseline_process import BaselineHost
from warpsmith.evaluation.timing.baselines import (
    Baselines,
    baseline_path,
    baseline_request,
    load_baselines,
    measure_baselines,
    measure_missing_modes,
    remeasure_near_best,
    require_any_mode,
    select_eager_modes,
    store_baselines,
)
from warpsmith.evaluation.timing.capture import CapturedCalls
from warpsmith.evaluation.timing.empty_kernel import EmptyKernels
from warpsmith.evaluation.timing.rules import StopRule
from warpsmith.evaluation.timing.sample import Examine, SamplingOptions
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.evaluation.timing.verdict import TimedCase, bound_times, conclude_case
from warpsmith.evaluation.timing.window import WindowSource
from warpsmith.machines.cuda import CUDA
from warpsmith.records import MODES, Case, CaseTiming, Failure, Group, Reason, StageResult, TimingFacts, Trial, Verdict

STAGE = "timing"
Tier = Literal["search", "claim"]
Cache = Literal["cold", "warm"]
# A search compares many candidates roughly, a claim compares one candidate finely. Samples are of each kind of input,
# of which a case has two to four.
SEARCH = StopRule(width=0.01, least=3, most=16, seconds=0.1)
CLAIM = StopRule(width=0.005, least=8, most=31, seconds=2.0)
# The addresses of code and parameters make a short kernel up to 0.3 µs faster or slower for the life of one process. So
# a claim below 100 µs uses four processes more, two before the baselines and two after, with fewer calls each.
SHORT_US = 100.0
MORE = ((2, 3), (4, 5))
FEWER = StopRule(width=0.005, least=5, most=8, seconds=1.0)


@dataclass(frozen=True)
class Timer:
    """The timing of candidates on one GPU."""

    empty_kernels: EmptyKernels
    hardware: str
    torch_version: str
    tier: Tier = "search"
    cache: Cache = "cold"
    modes: tuple[str, ...] = MODES
    release_memory: Callable[[], None] = CUDA.release_cache

    def time_cases(
        self,
        timing_session: TimingSession,
        subject: TimingSubject,
        cases: Sequence[Case],
        examine: Callable[[Trial], Examine],
        captured: CapturedCalls,
    ) -> StageResult:
        """Time every case; the first failure or doubt ends."""
        start_s = time.monotonic()
        found: list[CaseTiming] = []
        for case in cases:
            outcome = self.time_case(subject, case, examine, timing_session, captured)
            if isinstance(outcome, Failure):
                return self._result(start_s, found, outcome)
            found.append(outcome.timing)
            if outcome.doubts:
                return self._result(start_s, found, outcome.doubts[0])
        return self._result(start_s, found, None)

    def time_case(
        self,
        subject: TimingSubject,
        case: Case,
        examine: Callable[[Trial], Examine],
        timing_session: TimingSession,
        captured: CapturedCalls,
    ) -> TimedCase | Failure:
        """Time one case; return a failure if a replay fails."""
        # One window in a search; A B B A in a claim, where A are windows of the candidate and B those of
        # torch. In this order a linear drift of the GPU's clock affects both sides alike. A speedup above
        # 10 is timed again in a fresh process, in a search too.
        outline = subject.outline(case)
        source = self._window_source(subject, case, examine, timing_session, captured)
        few = replace(source, options=replace(source.options, rule=FEWER))
        if failure := source.replay_at_edges(captured.at_edges.get(case.name, ()), outline):
            return failure
        first = source.measure(0, outline)
        if isinstance(first, Failure):
            return first
        # A window that breaks a rule is not worth four more processes: the case ends in a quarantine
        # anyway.
        is_short = self._is_fine(case) and first.is_sound and first.us < SHORT_US
        more_before, more_after = MORE if is_short else ((), ())
        before = few.measure_all(more_before, outline, [first])
        if isinstance(before, Failure):
            return before
        baselines = self._find_baselines(subject, case, timing_session, first.every.flush_us)
        bounds = bound_times(subject.task, subject.direction, case, outline, self.empty_kernels.floor)
        if self.tier == "search" or not first.is_sound:
            outcome = conclude_case(case, [before], baselines, bounds, subject.launches)
            if not first.is_sound or Reason.TOO_GOOD not in outcome.reasons:
                return outcome
        again = source.measure_all([1], outline)
        after = again if isinstance(again, Failure) else few.measure_all(more_after, outline, again)
        if isinstance(after, Failure):
            return after
        return conclude_case(case, [before, after], baselines, bounds, subject.launches)

    def _is_fine(self, case: Case) -> bool:
        """Return whether a case is part of a claim."""
        # Held-out cases show the gap to the timed ones and need no narrow interval.
        return self.tier == "claim" and case.group is not Group.HELDOUT

    def _window_source(
        self,
        subject: TimingSubject,
        case: Case,
        examine: Callable[[Trial], Examine],
        timing_session: TimingSession,
        captured: CapturedCalls,
    ) -> WindowSource:
        """Return a source of windows with endless fresh calls."""
        rule = SEARCH if self.tier == "search" else CLAIM if self._is_fine(case) else FEWER
        options = SamplingOptions(rule, self.cache == "cold", kinds=subject.kinds(case))
        usual, others = (
            (subject.timed_call(trial, call, examine(trial)) for trial, call in drawn(case))
            for drawn in (subject.calls, subject.others)
        )
        return WindowSource(timing_session, self.empty_kernels, usual, options, captured.calls[case.name], others)

    def _find_baselines(
        self, subject: TimingSubject, case: Case, timing_session: TimingSession, flush_us: float
    ) -> Baselines:
        """Return a case's baselines, measured now where needed."""
        # For a claim two windows of the modes near the best are measured now. The sizes of a held-out
        # case never come again, so compiled code and stored times would never be used again.
        cold = self.cache == "cold"
        request = baseline_request(subject.target, subject.task, subject.direction, case, cold)
        if case.group is Group.HELDOUT:
            return measure_baselines(self._torch(timing_session), request, select_eager_modes(self.modes))
        path = baseline_path(self.hardware, self.torch_version, subject.task, subject.direction, case, cold)
        stored = load_baselines(path, flush_us)
        if stored is None or stored.missing_modes(self.modes):
            stored = measure_missing_modes(self._torch(timing_session), request, stored, self.modes, flush_us)
            store_baselines(path, stored)
        found = require_any_mode(stored.restricted_to(self.modes), request)
        if self.tier == "search":
            return found
        return remeasure_near_best(self._torch(timing_session), request, found)

    def _torch(self, timing_session: TimingSession) -> BaselineHost:
        """Return the baseline process, after freeing our own memory."""
        self.release_memory()
        return timing_session.torch

    def _result(self, start_s: float, cases: list[CaseTiming], failure: Failure | None) -> StageResult:
        """Return the stage's result with its cases."""
        return StageResult(
            stage=STAGE,
            verdict=failure.reason.verdict if failure else Verdict.PASS,
            reason=failure.reason if failure else None,
            detail=failure.detail if failure else "",
            facts=TimingFacts(tier=self.tier, cache=self.cache, cases=tuple(cases)),
            seconds=time.monotonic() - start_s,
        )
