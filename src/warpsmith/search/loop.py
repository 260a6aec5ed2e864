"""The search: generations until a stop rule holds.

A generation is planned from the state at its beginning and added to the state as a whole, so the order of events inside
it changes nothing, and a killed run continues where it was.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from warpsmith.archive import Archive
from warpsmith.base import ArchiveError, HarnessError, UsageError
from warpsmith.llm import Ensemble
from warpsmith.records import Candidate, Run, RunState
from warpsmith.search.config import SearchConfig
from warpsmith.search.generation import Evaluate, Generation, GenerationTools
from warpsmith.search.ledger import RunLedger
from warpsmith.search.planner import plan
from warpsmith.search.proposals import OPERATORS, Idea, PromptContext, Proposer
from warpsmith.search.proposals.operators import load_ideas
from warpsmith.search.selection import Arm, Bandit, RankedKernel, RunProgress, evaluations_left, find_stop
from warpsmith.search.slots import Screen, Slot
from warpsmith.search.state import Result, SearchState, add_generations

SILENT = 2  # after so many generations without an answer, the run continues without models


@dataclass(frozen=True)
class SearchView:
    """The state of a run at one moment."""

    run: str
    generation: int = 0
    generations: int = 0
    phase: str = ""
    done: int = 0  # finished slots of this generation
    slots: int = 0
    evaluations: int = 0
    funnel: Mapping[str, int] = field(default_factory=dict)
    best: RankedKernel | None = None
    lineage: tuple[str, ...] = ()
    usd: float = 0.0
    minutes: float = 0.0
    said: str = ""  # the latest event as a line


@dataclass(frozen=True)
class SearchEnding:
    """How a run ended, with its totals."""

    run: str
    why: str
    best: RankedKernel | None = None
    generations: int = 0
    evaluations: int = 0
    usd: float = 0.0
    minutes: float = 0.0
    funnel: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()  # errors of models and of the harness on the way
    interrupted: bool = False


Watch = Callable[[SearchView], None]


@dataclass(frozen=True)
class SearchTools:
    """The evaluator, models, verifiers, clock and watcher of a search."""

    evaluate: Evaluate
    models: Ensemble = field(default_factory=Ensemble)
    screen: Screen | None = None
    watch: Watch = lambda view: None
    clock: Callable[[], float] = time.monotonic
    jobs: int = 2
    summaries: bool = True  # whether models summarize their failed translations
    lessons: bool = True  # whether prompts contain lessons of other runs


@dataclass(frozen=True)
class SearchTask:
    """The task of a search: as an evaluator opens it, as prompts describe it, and the first kernel."""

    target: str
    context: PromptContext
    start: Candidate | None = None
    ideas: tuple[Idea, ...] = field(default_factory=load_ideas)  # those that suit the task and the GPU
    seed: int = 0


class Search:
    """One run. A second `Search` on the same archive continues it."""

    def __init__(self, archive: Archive, run: Run, task: SearchTask, config: SearchConfig, tools: SearchTools) -> None:
        self._run = run
        self._task = task
        self._config = config
        self._tools = tools
        self._archive = archive
        self._began_s = tools.clock()
        self._worked = False
        self.ledger = RunLedger(archive, run.name)
        self.state = load_state(self.ledger, task.context.task.name, tools)
        # Errors of models belong to the process before: the server may answer again.
        self.state.reset_model_failures()

    def run(self) -> SearchEnding:
        """Search until a stop rule holds or an interrupt. An error marks the run as failed."""
        # A resumed run was marked as done or stopped.
        self._archive.finish(self._run.name, RunState.RUNNING)
        try:
            why = asyncio.run(self._generations())
        except KeyboardInterrupt:
            self._archive.finish(self._run.name, RunState.STOPPED, "interrupted")
            return self._ending("interrupted", interrupted=True)
        except BaseException as error:
            with suppress(ArchiveError):  # the archive may be the part that failed
                self._finish(RunState.FAILED, f"{type(error).__name__}: {error}"[:500])
            raise
        self._finish(RunState.DONE, why)
        return self._ending(why)

    def _finish(self, state: RunState, why: str) -> None:
        """Save the end of the run; if nothing was done, the time of its earlier end stays."""
        self._archive.finish(self._run.name, state, why, None if self._worked else self._run.finished)

    @property
    def task(self) -> str:
        """The task's name as in records."""
        return self._task.context.task.name

    async def _generations(self) -> str:
        """Run generations; return the stop rule's reason."""
        pool = ThreadPoolExecutor(max(1, self._tools.jobs), thread_name_prefix="evaluate")
        crew = GenerationTools(self._tools.evaluate, pool, self._tools.models, self._tools.screen)
        try:
            while True:
                slots = self.next_slots()
                if why := self._why_stop(slots):
                    return why
                await self._generation(slots, crew)
        finally:
            pool.shutdown(
                wait=True, cancel_futures=True
            )  # running evaluations end and are saved, waiting ones are not started

    async def _generation(self, slots: Sequence[Slot], crew: GenerationTools) -> None:
        self._worked = True
        self._absorb(slots, await self.generation(slots, crew).run())

    def generation(self, slots: Sequence[Slot], crew: GenerationTools) -> Generation:
        """Return the slots as a watched generation."""

        def show(phase: str, done: int, said: str) -> None:
            self._tools.watch(self._view(phase, slots[0].generation, done, len(slots), said))

        return Generation(slots, self.ledger, self.proposer(), crew, show, self._config.evaluate, self._left())

    def close(self, slots: Sequence[Slot]) -> bool:
        """Add a finished generation; return whether it was finished."""
        results = self.ledger.load_results(slots[0].generation)
        # A proper subset: some planned slot is still open.
        if {one.slot.name for one in results} < {slot.name for slot in slots}:
            return False
        self._absorb(slots, results)
        return True

    def _absorb(self, slots: Sequence[Slot], results: Sequence[Result]) -> None:
        number = slots[0].generation
        self.ledger.close_generation(number, self.state.add_generation(results))
        self._tools.watch(self._view("done", number, len(slots), len(slots), ""))

    def next_slots(self) -> tuple[Slot, ...]:
        """Return the open generation's plan, or save a new one."""
        # A saved plan is never drawn again: its prompts may be answered already.
        if begun := self.ledger.load_plan(self.state.generation):
            return begun
        models = () if self.state.silent >= SILENT else self._tools.models.names
        task = self._task
        slots = plan(
            self.state, self._config, task.ideas, models, task.seed, has_start=task.start is not None, left=self._left()
        )
        if slots:
            self.ledger.save_plan(slots)
        return slots

    def proposer(self) -> Proposer:
        """Return the proposer for the state of this moment."""
        task, summaries = self._task, self._tools.summaries
        return Proposer(task.context, task.target, self.state, task.seed, task.start, summaries)

    def _why_stop(self, slots: Sequence[Slot]) -> str:
        """Return why the run ends, or an empty text."""
        # The first generation has no budget rule: without a first kernel there is nothing to report.
        if self.state.generation == 0 and slots:
            return ""
        # Nothing is planned although evaluations are left: there must be a kernel, or the user learns why not.
        if not slots and self._left() != 0:
            self._check_first()
        config = self._config
        if not self.state.population.members:  # until there is a kernel, `attempts` bounds the run
            config = config.replace(generations=self.state.generation + 1, patience=None)
        return find_stop(self._progress(exhausted=not slots), config)

    def _check_first(self) -> None:
        """Raise if there is no kernel and nothing is proposed."""
        state = self.state
        if state.population.members:
            return
        last = next(reversed([*state.broken.values(), *state.chains.values()]), None)
        words = _sentence(last.evidence if last else "; ".join(state.failures) or "nothing was proposed")
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
        """Return how many evaluations the next generation may have."""
        return evaluations_left(self._progress(), self._config)

    def _minutes(self) -> float:
        return (self._tools.clock() - self._began_s) / 60

    def _view(self, phase: str, number: int, done: int, slots: int, said: str) -> SearchView:
        state = self.state
        return SearchView(
            run=self._run.name,
            generation=number,
            generations=self._config.generations,
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

    def _ending(self, why: str, interrupted: bool = False) -> SearchEnding:
        state = self.state
        return SearchEnding(
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
    """Return the text with a final period."""
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text.rstrip()}."


def load_state(ledger: RunLedger, task: str, tools: SearchTools) -> SearchState:
    """Return the state of a run: lessons of other runs, then its complete generations in order."""
    arms = [Arm(name, operator) for name in tools.models.names for operator in OPERATORS]
    weights = dict(zip(tools.models.names, tools.models.weights, strict=True))
    state = SearchState(task, Bandit(arms, weights), lessons=ledger.load_lessons() if tools.lessons else [])
    add_generations(state, ledger.load_generations())
    return state
