"""The timing stage on a real GPU: every case sampled, held against the best of torch, doubted where there is reason."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from warpsmith.compile import Toolchain
from warpsmith.records import Case, CaseTiming, Direction, StageResult, Task, TimingFacts, Trial, Verdict
from warpsmith.sandbox.cuda_session import CudaSession, room_for
from warpsmith.sandbox.observation import Trouble
from warpsmith.tasks.fresh import problems
from warpsmith.tasks.opened import OpenTask
from warpsmith.timing.baselines import Baseline, TorchHost, joined, keep, load, measure, store
from warpsmith.timing.ceilings import measure_ceilings
from warpsmith.timing.null import measure_null
from warpsmith.timing.rules import Doubt
from warpsmith.timing.sample import Examine, sample
from warpsmith.timing.stop import StopRule
from warpsmith.timing.verdict import Bench, Judged, floor_of, judged

STAGE = "timing"
Tier = Literal["search", "claim"]


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


@dataclass
class Timer:
    """Times candidates on this GPU; what does not depend on the candidate is measured once."""

    toolchain: Toolchain
    hardware: str
    torch_version: str
    tier: Tier = "search"
    rule: StopRule = field(default_factory=StopRule)

    def stage(self, subject: Subject, cases: Sequence[Case], examine: Callable[[Case], Examine]) -> StageResult:
        """The result of timing all cases; the first wrong output or doubt decides the verdict."""
        begin = time.monotonic()
        found: list[CaseTiming] = []
        for case in cases:
            outcome = self.time_case(subject, case, examine(case))
            if isinstance(outcome, Trouble):
                return self._result(begin, found, Verdict.FAIL, outcome)
            found.append(outcome.timing)
            if outcome.doubts:
                return self._result(begin, found, Verdict.QUARANTINE, outcome.doubts[0])
        return self._result(begin, found, Verdict.PASS, None)

    def time_case(self, subject: Subject, case: Case, examine: Examine) -> Judged | Trouble:
        """Sample one case and judge what came out."""
        calls = problems(subject.opened, subject.direction, Trial(case=case), secrets.randbits(31), "cuda")
        first = next(calls)
        floor = floor_of(subject.task, subject.direction, case, first, self.bench.ceilings)
        room, runtime = room_for(first.arguments, first.native), self.toolchain.runtime.parent
        baselines = self._baselines(subject, case) if self.tier == "search" else ()
        with CudaSession(subject.artifact, subject.direction.value, runtime, room) as session:
            if session.trouble is not None:
                return session.trouble
            samples = sample(session, calls, examine, self.rule, subject.plain)
            if self.tier == "claim" and not isinstance(samples, Trouble):  # A B B A: the baseline stands between
                baselines = self._resident(subject, case)
                samples = samples.joined(sample(session, calls, examine, self.rule, subject.plain))
        if isinstance(samples, Trouble):
            return samples
        return judged(case, samples, baselines, self.bench, floor, subject.launches)

    @cached_property
    def bench(self) -> Bench:
        """The zeros and the ceilings of this GPU."""
        null = measure_null(self.toolchain)
        return Bench(null, measure_ceilings(null.queued_us))

    def _baselines(self, subject: Subject, case: Case) -> tuple[Baseline, ...]:
        """Those of an earlier evaluation on this hardware and torch, or measured now."""
        path = store(self.hardware, self.torch_version, subject.task, subject.direction, case)
        if found := load(path):
            return found
        with TorchHost() as host:
            found = measure(host, subject.target, subject.task, subject.direction, case)
        keep(path, found)
        return found

    def _resident(self, subject: Subject, case: Case) -> tuple[Baseline, ...]:
        """Two windows of every mode, one after the other, from one process."""
        with TorchHost() as host:
            one, two = (measure(host, subject.target, subject.task, subject.direction, case) for _ in range(2))
        return joined(one, two)

    def _result(
        self, begin: float, cases: list[CaseTiming], verdict: Verdict, why: Trouble | Doubt | None
    ) -> StageResult:
        return StageResult(
            stage=STAGE,
            verdict=verdict,
            reason=why.reason if why else None,
            detail=why.detail if why else "",
            facts=TimingFacts(tier=self.tier, cases=tuple(cases)),
            seconds=time.monotonic() - begin,
        )
