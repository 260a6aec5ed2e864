"""The search for a faster kernel, up to its winner's final evaluation."""

from contextlib import ExitStack
from dataclasses import dataclass

from warpsmith.app.jobs import Watch, ignore
from warpsmith.app.runs import write_kernel
from warpsmith.app.session import FINAL, Session, open_session
from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.records import Direction, Model, Record, Run, Score, Verdict, score, unproven_reason
from warpsmith.search import SearchConfig, SearchEnding
from warpsmith.search.selection import RankedKernel

FINALISTS = 3  # so many of the best kernels are evaluated fully until one passes


@dataclass(frozen=True)
class SearchOpened:
    """Event: the run is open under its name."""

    run: Run
    task: str


@dataclass(frozen=True)
class FinalEvaluations:
    """The winner's record, and the rejected kernels."""

    winner: Record | None = None
    unsettled: tuple[str, ...] = ()  # evaluations that failed through no fault of the kernel
    refuted: tuple[str, ...] = ()  # kernels that failed


class Optimized(Model):
    """How a search ended."""

    run: Run
    why: str
    gain: float | None = None  # over the first kernel
    score: Score | None = None
    path: str = ""
    evaluations: int = 0  # all evaluations of the run
    at_length: int = 0  # final evaluations among them; no budget counts them
    usd: float = 0.0
    minutes: float = 0.0
    record: Record | None = None
    unsettled: tuple[str, ...] = ()  # better kernels whose final evaluation failed through no fault of the kernel
    next: str = ""


@dataclass(frozen=True)
class SearchReport:
    """A search's result with its totals, for a display."""

    result: Optimized
    ending: SearchEnding
    best: RankedKernel | None = None
    lineage: tuple[str, ...] = ()  # of the best kernel, oldest first


def optimize(
    task: str = "",
    direction: Direction | str = Direction.FORWARD,
    *,
    config: SearchConfig | None = None,
    watch: Watch = ignore,
    **options: object,
) -> Run:
    """Search for a faster kernel, and return the run; `best(run.name)` is its best kernel.

    Options are fields of `SearchConfig`, such as `models`, `generations` and `budget_usd`. `watch` takes each event.
    """
    # Only options that were given override the configuration; defaults do not.
    given = {} if config is None else {name: getattr(config, name) for name in config.model_fields_set}
    asked = {"target": task, "direction": direction} if config is None or task else {}
    return run_search(SearchConfig.from_options(**{**given, **asked, **options}), watch).result.run


def resume(run: str, watch: Watch = ignore) -> Run:
    """Continue a run that was stopped or killed."""
    return run_search(SearchConfig(run=run, resume=True), watch).result.run


def run_search(config: SearchConfig, watch: Watch = ignore) -> SearchReport:
    """Run or resume a search, and evaluate its winner fully. Events are SearchOpened, then SearchView."""
    if not config.target and not config.resume:
        raise UsageError("Name a task to optimize, or a run to go on with: --run NAME --resume.")
    with Archive.open() as archive, ExitStack() as until:
        session = open_session(archive, config, watch, until)
        watch(SearchOpened(session.run, session.task.name))
        ending = session.search.run()
        # After an interrupt the user wants the command to end; `--resume` evaluates the winner later.
        finals = FinalEvaluations() if ending.interrupted else evaluate_finalists(session)
        result = _result(session, ending, finals)
        best = _find_member(session, result.record) if result.record else None
        return SearchReport(result, ending, best, _lineage(session, result.record) if result.record else ())


def evaluate_finalists(session: Session) -> FinalEvaluations:
    """Evaluate the best kernels fully until one passes."""
    unsettled, refuted = list[str](), list[str]()
    population = session.search.state.population
    for member in population.ranked()[:FINALISTS]:
        # A resumed run does not evaluate a winner twice.
        record = _known_final(session, member.id) or _evaluate_final(session, member)
        if record.blameless:  # a disturbed GPU is rarely disturbed twice
            record = _evaluate_final(session, member)
        if record.concluded is Verdict.PASS:
            return FinalEvaluations(record, tuple(unsettled), tuple(refuted))
        if record.ended is not None:
            line = f"{member.name}, {member.gain:.2f}× the first kernel: {record.ended.detail}"
            (unsettled if record.blameless else refuted).append(line)
        # A kernel that failed must not be the parent of further kernels.
        if not record.blameless:
            population.drop(member.id)
    return FinalEvaluations(None, tuple(unsettled), tuple(refuted))


def _evaluate_final(session: Session, member: RankedKernel) -> Record:
    # The record names the task as the user typed it, so that the command of the record works.
    record = session.evaluate_fully(member.record.candidate.model_copy(update={"task": session.run.target}))
    session.archive.add(
        session.run.name, record, generation=member.generation, proposal=FINAL, operator=FINAL, cell=member.cell
    )
    return record


def _known_final(session: Session, candidate: str) -> Record | None:
    """Return the final evaluation of an earlier process, unless the harness failed in it."""
    entries = session.archive.records(session.run.name, candidate=candidate)
    finals = (entry.record for entry in entries if entry.tags.proposal == FINAL)
    return next((record for record in finals if not record.blameless), None)


def _result(session: Session, ending: SearchEnding, finals: FinalEvaluations) -> Optimized:
    best = finals.winner or (ending.best.record if ending.best and ending.interrupted else None)
    member = _find_member(session, best) if best else None
    path, command, name = "", session.run.go_on, session.run.name
    # Only a kernel with a full evaluation is written as the result of the run.
    if best is not None and not unproven_reason(best):
        path = str(write_kernel(name, best))
        if not ending.interrupted:
            command = session.run.eval_command(best, path)
    entries = session.archive.records(name)
    return Optimized(
        run=session.archive.run(name),
        why=ending.why,
        gain=member.gain if member else None,
        score=score(best) if best else None,
        path=path,
        evaluations=session.archive.count(name),
        # Final evaluations are in the archive, and no budget counts them.
        at_length=sum(entry.tags.proposal == FINAL for entry in entries),
        usd=ending.usd,
        minutes=ending.minutes,
        record=best,
        unsettled=finals.unsettled,
        next=command,
    )


def _find_member(session: Session, record: Record) -> RankedKernel | None:
    """Return the population's member of a record."""
    return next((one for one in session.search.state.population.members if one.id == record.candidate.id), None)


def _lineage(session: Session, record: Record) -> tuple[str, ...]:
    """Return the proposals that led to a kernel, oldest first."""
    entries = session.archive.lineage(record.candidate.id, session.run.name)
    return tuple(f"{entry.tags.proposal} {entry.tags.operator}".strip() for entry in entries)
