"""The search: generation after generation until a stop. Sees records only, never a GPU.

A generation is planned from what is known when it begins, and taken in as a whole when all its slots are finished; so
the order in which things happen inside it changes nothing, and a killed run goes on where it was.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from warpsmith.archive import Archive
from warpsmith.base import ArchiveError, HarnessError, UsageError
from warpsmith.llm import Ensemble
from warpsmith.records import Candidate, Run, RunState
from warpsmith.search.generation import Crew, Evaluate, Generation
from warpsmith.search.ledger import RunLedger
from warpsmith.search.planner import Shape, plan
from warpsmith.search.proposals import OPERATORS, PromptContext, Proposer, Screen
from warpsmith.search.selection import Arm, Bandit, Limits, RunProgress, left, stop
from warpsmith.search.slot import Slot
from warpsmith.search.state import Result, SearchState, fold
from warpsmith.search.view import Ending, RunView

SILENT = 2  # generations in which no model answers, before a run goes on without models
Watch = Callable[[RunView], None]


@dataclass(frozen=True)
class Tools:
    """What a search is given: the evaluator, the models, the verifiers, a clock, somebody who looks on."""

    evaluate: Evaluate
    models: Ensemble = field(default_factory=Ensemble)
    screen: Screen | None = None
    watch: Watch = lambda view: None
    clock: Callable[[], float] = time.monotonic
    jobs: int = 2
    summaries: bool = True  # of failed translations, by the models themselves
    lessons: bool = True  # of other runs; without them prompts follow from this run alone


@dataclass(frozen=True)
class Aim:
    """What is searched: the task as it is opened and as it is described, a kernel to start from, sizes and stops."""

    target: str
    subject: PromptContext
    start: Candidate | None = None
    shape: Shape = field(default_factory=Shape)
    limits: Limits = field(default_factory=Limits)
    seed: int = 0


class Search:
    """One run. `run()` searches until a stop, an interrupt or a kill; a new one on the same archive goes on."""

    def __init__(self, archive: Archive, run: Run, aim: Aim, tools: Tools) -> None:
        self._run = run
        self._aim = aim
        self._tools = tools
        self._archive = archive
        self._began_s = tools.clock()
        self._worked = False
        self.ledger = RunLedger(archive, run.name)
        self.state = known_state(self.ledger, aim.subject.task.name, tools)
        self.state.hope()

    def run(self) -> Ending:
        """Search; what goes wrong with the harness leaves the run marked as failed and everything finished kept."""
        self._archive.finish(self._run.name, RunState.RUNNING)
        try:
            why = asyncio.run(self._generations())
        except KeyboardInterrupt:
            self._archive.finish(self._run.name, RunState.STOPPED, "interrupted")
            return self._ending("interrupted", interrupted=True)
        except BaseException as error:
            with suppress(ArchiveError):  # an archive that cannot be written is what went wrong already
                self._finish(RunState.FAILED, f"{type(error).__name__}: {error}"[:500])
            raise
        self._finish(RunState.DONE, why)
        return self._ending(why)

    def _finish(self, state: RunState, why: str) -> None:
        """The run ends now, or when it did if nothing was left to do."""
        self._archive.finish(self._run.name, state, why, None if self._worked else self._run.finished)

    @property
    def task(self) -> str:
        """The task's name, which is also in the records."""
        return self._aim.subject.task.name

    async def _generations(self) -> str:
        """Generation after generation; why it ended comes back."""
        pool = ThreadPoolExecutor(max(1, self._tools.jobs), thread_name_prefix="evaluate")
        crew = Crew(self._tools.evaluate, pool, self._tools.models, self._tools.screen)
        try:
            while True:
                slots = self.next_slots()
                if why := self._why_stop(slots):
                    return why
                await self._generation(slots, crew)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # what is being evaluated is kept, what waits is not begun

    async def _generation(self, slots: Sequence[Slot], crew: Crew) -> None:
        self._worked = True
        self._absorb(slots, await self.generation(slots, crew).run())

    def generation(self, slots: Sequence[Slot], crew: Crew) -> Generation:
        """Slots on their way, seen by whoever watches."""

        def show(phase: str, done: int, said: str) -> None:
            self._tools.watch(self._view(phase, slots[0].generation, done, len(slots), said))

        shape, left = self._aim.shape, self._left()
        return Generation(slots, self.ledger, self.proposer(), crew, show, shape.evaluate, left)

    def close(self, slots: Sequence[Slot]) -> bool:
        """Take a generation in, if all its slots are finished."""
        results = self.ledger.finished(slots[0].generation)
        if {one.slot.name for one in results} < {slot.name for slot in slots}:
            return False
        self._absorb(slots, results)
        return True

    def _absorb(self, slots: Sequence[Slot], results: Sequence[Result]) -> None:
        number = slots[0].generation
        self.ledger.close_generation(number, self.state.absorb(results))
        self._tools.watch(self._view("done", number, len(slots), len(slots), ""))

    def next_slots(self) -> tuple[Slot, ...]:
        """The plan of the generation that was begun, else a new one, kept before anything of it is done."""
        if begun := self.ledger.planned(self.state.generation):
            return begun
        models = () if self.state.silent >= SILENT else self._tools.models.names
        aim = self._aim
        slots = plan(self.state, aim.shape, models, aim.seed, aim.start is not None, self._left())
        if slots:
            self.ledger.plan(slots)
        return slots

    def proposer(self) -> Proposer:
        """Who fills slots from what is known now."""
        aim, summaries = self._aim, self._tools.summaries
        return Proposer(aim.subject, aim.target, self.state, aim.seed, aim.start, summaries)

    def _why_stop(self, slots: Sequence[Slot]) -> str:
        if self.state.generation == 0 and slots:
            return ""
        if not slots and self._left() != 0:
            self._check_first()
        limits = self._aim.limits
        if not self.state.population.members:  # a first kernel has attempts, not generations
            limits = replace(limits, generations=self.state.generation + 1, patience=None)
        return stop(self._progress(exhausted=not slots), limits)

    def _check_first(self) -> None:
        """Nobody proposes anything and there is no kernel: there was nothing to search from."""
        state = self.state
        if state.population.members:
            return
        last = next(reversed([*state.broken.values(), *state.chains.values()]), None)
        words = _sentence(last.evidence if last else "; ".join(state.failures) or "nobody proposed one")
        if last is None and state.failures and not self._tools.models:
            raise HarnessError(f"The first kernel of run {self._run.name} could not be evaluated: {words}")
        tries = f" after {state.translations} rounds of translation" if state.translations else ""
        raise UsageError(
            f"Run {self._run.name} has no correct kernel to search from{tries}: {words} Give one with --from KERNEL, "
            f"name a model with --models, or write one through `warpsmith ask {self._run.name}` and `warpsmith tell`."
        )

    def _progress(self, exhausted: bool = False) -> RunProgress:
        state, best = self.state, self.state.population.best
        return RunProgress(
            generation=state.evolved,
            evaluations=state.evaluations,
            usd=state.usd,
            minutes=self._minutes(),
            gain=best.gain if best else 0.0,
            roofline=best.fitness.roofline if best else None,
            idle=state.idle,
            exhausted=exhausted,
            out_of_budget=state.out_of_budget,
        )

    def _left(self) -> int | None:
        """How many evaluations the next generation may have."""
        return left(self._progress(), self._aim.limits)

    def _minutes(self) -> float:
        return (self._tools.clock() - self._began_s) / 60

    def _view(self, phase: str, number: int, done: int, slots: int, said: str) -> RunView:
        state = self.state
        return RunView(
            run=self._run.name,
            generation=number,
            generations=self._aim.limits.generations,
            phase=phase,
            done=done,
            slots=slots,
            evaluations=state.evaluations,
            funnel=dict(state.funnel),
            best=state.population.best,
            lineage=state.population.lineage(),
            usd=state.usd,
            minutes=self._minutes(),
            said=said,
        )

    def _ending(self, why: str, interrupted: bool = False) -> Ending:
        state = self.state
        return Ending(
            run=self._run.name,
            why=why,
            best=state.population.best,
            generations=state.evolved,
            evaluations=state.evaluations,
            usd=state.usd,
            minutes=self._minutes(),
            funnel=dict(state.funnel),
            failures=tuple(dict.fromkeys(state.failures)),
            interrupted=interrupted,
        )


def _sentence(text: str) -> str:
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text.rstrip()}."


def known_state(ledger: RunLedger, task: str, tools: Tools) -> SearchState:
    """What a run knows from its archive: the lessons of others, and its own complete generations."""
    arms = [Arm(name, operator) for name in tools.models.names for operator in OPERATORS]
    weights = dict(zip(tools.models.names, tools.models.weights, strict=True))
    state = SearchState(task, Bandit(arms, weights), lessons=ledger.lessons() if tools.lessons else [])
    fold(state, ledger.generations())
    return state
