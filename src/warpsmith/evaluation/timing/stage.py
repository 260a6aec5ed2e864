"""The timing stage on a real GPU: every case sampled, held against the best of torch, doubted where there is reason."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from warpsmith.evaluation.timing.baseline_process import BaselineHost
from warpsmith.evaluation.timing.baselines import (
    Baselines,
    asked,
    believed,
    completed,
    keep,
    measure,
    measure_again,
    running,
    store,
    uncompiled,
)
from warpsmith.evaluation.timing.recording import Recordings
from warpsmith.evaluation.timing.sample import Examine, Manner
from warpsmith.evaluation.timing.sitting import Sitting
from warpsmith.evaluation.timing.stop import StopRule
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.evaluation.timing.verdict import Judged, judged, least
from warpsmith.evaluation.timing.window import Windows
from warpsmith.evaluation.timing.zeros import Zeros
from warpsmith.machines.cuda import give_back
from warpsmith.records import MODES, Case, CaseTiming, Failure, Group, Reason, StageResult, TimingFacts, Trial, Verdict

STAGE = "timing"
Tier = Literal["search", "claim"]
Cache = Literal["cold", "warm"]
# A search asks many candidates a rough question, a claim one candidate a fine one.
# Samples are of each kind of input, of which there are two to four.
SEARCH = StopRule(width=0.01, least=3, most=16, seconds=0.1)
CLAIM = StopRule(width=0.005, least=8, most=31, seconds=2.0)
# Where its code and parameters lie makes the same kernel up to 0.3 µs faster or slower in one process than in another,
# always in that one: a claim of a short kernel asks several, before torch's windows and after.
SHORT_US = 100.0
MORE = ((2, 3), (4, 5))  # processes before and after, with fewer calls each
FEWER = StopRule(width=0.005, least=5, most=8, seconds=1.0)


@dataclass(frozen=True)
class Timer:
    """Times candidates on this GPU."""

    zeros: Zeros
    hardware: str
    torch_version: str
    tier: Tier = "search"
    cache: Cache = "cold"
    modes: tuple[str, ...] = MODES
    release_memory: Callable[[], None] = give_back

    def stage(
        self,
        sitting: Sitting,
        subject: TimingSubject,
        cases: Sequence[Case],
        examine: Callable[[Trial], Examine],
        recorded: Recordings,
    ) -> StageResult:
        """The result of timing all cases; the first doubt decides the verdict."""
        begin = time.monotonic()
        found: list[CaseTiming] = []
        for case in cases:
            outcome = self.time_case(subject, case, examine, sitting, recorded)
            if isinstance(outcome, Failure):
                return self._result(begin, found, outcome)
            found.append(outcome.timing)
            if outcome.doubts:
                return self._result(begin, found, outcome.doubts[0])
        return self._result(begin, found, None)

    def time_case(
        self,
        subject: TimingSubject,
        case: Case,
        examine: Callable[[Trial], Examine],
        sitting: Sitting,
        recorded: Recordings,
    ) -> Judged | Failure:
        """A, or A B B A for a claim; what seems too good in a fresh process as well."""
        outline = subject.outline(case)
        claimed = self.tier == "claim" and case.group is not Group.HELDOUT  # of those the gap is what matters
        rule = SEARCH if self.tier == "search" else CLAIM if claimed else FEWER
        manner = Manner(rule, self.cache == "cold", kinds=subject.kinds(case))
        usual, others = (
            (subject.timed_call(trial, call, examine(trial)) for trial, call in drawn(case))
            for drawn in (subject.calls, subject.others)
        )
        making = Windows(sitting, self.zeros, usual, manner, recorded.calls[case.name], others)
        several = replace(making, manner=replace(manner, rule=FEWER))
        first = making.windows([0], outline)
        if isinstance(first, Failure):
            return first
        if doubt := making.replay_at_edges(recorded.at_edges.get(case.name, ()), outline):
            return doubt
        agrees = first[0].agrees
        short = claimed and agrees and first[0].us < SHORT_US
        before = several.windows(MORE[0] if short else (), outline, first)
        if isinstance(before, Failure):
            return before
        baselines = self._baselines(subject, case, sitting, first[0].every.flush_us)
        bounds = least(subject.task, subject.direction, case, outline, self.zeros.floor)
        if self.tier == "search" or not agrees:
            outcome = judged(case, [before], baselines, bounds, subject.launches)
            if not agrees or Reason.TOO_GOOD not in outcome.reasons:
                return outcome
        again = making.windows([1], outline)
        after = again if isinstance(again, Failure) else several.windows(MORE[1] if short else (), outline, again)
        if isinstance(after, Failure):
            return after
        return judged(case, [before, after], baselines, bounds, subject.launches)

    def _baselines(self, subject: TimingSubject, case: Case, sitting: Sitting, flush_us: float) -> Baselines:
        """Those of an earlier day, unless the GPU has drifted since; for a claim two windows now of what came near.

        A shape that was drawn for this evaluation comes never again: nothing is compiled for it, and nothing kept.
        """
        cold = self.cache == "cold"
        request = asked(subject.target, subject.task, subject.direction, case, cold)
        if case.group is Group.HELDOUT:
            return measure(self._torch(sitting), request, uncompiled(self.modes))
        path = store(self.hardware, self.torch_version, subject.task, subject.direction, case, cold)
        kept = believed(path, flush_us)
        if kept is None or kept.lacking(self.modes):
            kept = completed(self._torch(sitting), request, kept, self.modes, flush_us)
            keep(path, kept)
        chosen = running(kept.only(self.modes), request)
        return chosen if self.tier == "search" else measure_again(self._torch(sitting), request, chosen)

    def _torch(self, sitting: Sitting) -> BaselineHost:
        """Return torch's process, after memory that references took in this one is free for it."""
        self.release_memory()
        return sitting.torch

    def _result(self, begin: float, cases: list[CaseTiming], why: Failure | None) -> StageResult:
        return StageResult(
            stage=STAGE,
            verdict=why.reason.verdict if why else Verdict.PASS,
            reason=why.reason if why else None,
            detail=why.detail if why else "",
            facts=TimingFacts(tier=self.tier, cache=self.cache, cases=tuple(cases)),
            seconds=time.monotonic() - begin,
        )
