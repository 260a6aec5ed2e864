"""`warpsmith optimize`: search for a faster kernel, with models or without, on a GPU or without."""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import Wishes
from warpsmith.base import pluralize, shell_line
from warpsmith.cli._archive import score_text
from warpsmith.cli._live import best_lines, display
from warpsmith.cli._options import Jobs, Json, Trust
from warpsmith.cli._output import console, print_json
from warpsmith.records import CheckFacts, Direction, Model, Record, Run, Score, score, unproven_reason

if TYPE_CHECKING:
    from warpsmith.app import Finish, Session
    from warpsmith.search import Ending
    from warpsmith.search.selection import RankedKernel

INTERRUPTED = 130
MODELS_HELP = "PROVIDER:MODEL[,setting=value]; several with a semicolon between them. The tuner alone by default."
REVIEWERS_HELP = "What models review before an evaluation: compile, memory, numerical, cheating; more with commas."


class Optimized(Model):
    """How a search ended, for a program."""

    run: Run
    why: str
    gain: float | None = None  # over the kernel it started from
    score: Score | None = None
    path: str = ""
    evaluations: int = 0  # all that the archive has of the run
    at_length: int = 0  # of these, the ones that settle the winner; no budget counts them
    usd: float = 0.0
    minutes: float = 0.0
    record: Record | None = None
    unsettled: tuple[str, ...] = ()  # better kernels that could not be evaluated at length, by no fault of theirs
    next: str = ""


def command(
    target: Annotated[str, typer.Argument(help="A task, as for eval; not needed with --resume.")] = "",
    direction: Annotated[Direction | None, typer.Option(help="Which pass; forward by default.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, vgpu (the virtual GPU), or auto.")] = None,
    models: Annotated[str | None, typer.Option(help=MODELS_HELP)] = None,
    generations: Annotated[int | None, typer.Option(min=0, help="At most so many; 10 by default.")] = None,
    proposals: Annotated[int | None, typer.Option(min=1, help="Of a generation; 8 by default.")] = None,
    evaluate: Annotated[int | None, typer.Option(min=1, help="Of the models' proposals; 4 by default.")] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="For models; 0 asks none.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(min=0, help="Of this call.")] = None,
    budget_evaluations: Annotated[
        int | None, typer.Option(min=1, help="Evaluations of the search; the winner's at length is beside it.")
    ] = None,
    goal: Annotated[float | None, typer.Option(min=0, help="End at this gain over the first kernel.")] = None,
    roofline: Annotated[float | None, typer.Option(min=0, max=1, help="End at this share of the roofline.")] = None,
    patience: Annotated[int | None, typer.Option(min=1, help="End after so many generations without gain.")] = None,
    drafts: Annotated[int | None, typer.Option(min=1, help="First kernels that are tried at once.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="Rounds of translation; 10 by default.")] = None,
    reviewers: Annotated[str | None, typer.Option(help=REVIEWERS_HELP)] = None,
    run: Annotated[str, typer.Option(help="The name of the run; made from the task and the time by default.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with --run NAME.")] = False,
    start: Annotated[Path | None, typer.Option("--from", help="A kernel to start from instead of the seed.")] = None,
    record: Annotated[Path | None, typer.Option(help="Write the models' traffic to this file.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer from such a file: no key, no network.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the search's own choices.")] = None,
    gpu: Annotated[str | None, typer.Option(help="The GPU that the virtual one models; H200 by default.")] = None,
    jobs: Jobs = os.cpu_count() or 1,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Search for a faster kernel; Ctrl-C keeps everything, and --resume goes on."""
    given = dict(locals())  # every option is a wish of the same name
    return search(Wishes.asked(**{name: value for name, value in given.items() if name != "as_json"}), as_json)


def search(wishes: Wishes, as_json: bool) -> int:
    """Run or resume a search, evaluate its winner at length, and say what it found."""
    from warpsmith.app import Finish, finish, open_session
    from warpsmith.archive import Archive
    from warpsmith.base import UsageError

    if not wishes.target and not wishes.resume:
        raise UsageError("Name a task to optimize, or a run to go on with: --run NAME --resume.")
    with Archive.open() as archive, ExitStack() as until:
        with display(f"warpsmith optimize {wishes.target or wishes.run}", wishes.device != "vgpu", as_json) as shown:
            session = open_session(archive, wishes, shown.show, until)
            shown.name(f"{session.run.name}: {session.task.name}, {session.run.direction}, on {session.run.device}")
            ending = session.search.run()
        finished = Finish() if ending.interrupted else finish(session)
        made = _optimized(session, ending, finished)
    if as_json:
        print_json(made)
    else:
        _print(made, session, ending)
    return INTERRUPTED if ending.interrupted else 0 if finished.winner is not None else 4


def _optimized(session: "Session", ending: "Ending", finished: "Finish") -> Optimized:
    from warpsmith.app import finals, write_kernel

    best = finished.winner or (ending.best.record if ending.best and ending.interrupted else None)
    path, again = "", session.run.go_on
    gain = None
    if best is not None:
        member = _member(session, best)
        gain = member.gain if member else None
    if best is not None and not unproven_reason(best):
        path = str(write_kernel(session.run.name, best))
        if not ending.interrupted:
            again = session.run.eval_command(best, path)
    return Optimized(
        run=session.archive.run(session.run.name),
        why=ending.why,
        gain=gain,
        score=score(best) if best else None,
        path=path,
        evaluations=session.archive.count(session.run.name),
        at_length=finals(session),
        usd=ending.usd,
        minutes=ending.minutes,
        record=best,
        unsettled=finished.unsettled,
        next=again,
    )


def _print(made: Optimized, session: "Session", ending: "Ending") -> None:
    out = console()
    out.print(f"{made.run.name}: {ending.why}", style="bold")
    length = f", {made.at_length} of them at length," if made.at_length else ""
    out.print(
        f"  {pluralize(made.evaluations, 'evaluation')}{length} in {made.minutes:.1f} minutes, {made.usd:.3f} dollars"
    )
    funnel = ", ".join(f"{count} {word}" for word, count in sorted(ending.funnel.items(), key=lambda pair: -pair[1]))
    if funnel:
        out.print(f"  verdicts: {funnel}")
    for failure in ending.failures:
        out.print(f"  lost: {failure}")
    for better in made.unsettled:
        out.print(f"  not evaluated at length: {better}; --run {made.run.name} --resume tries again")
    if made.record is None:
        out.print(f"  {_without_winner(made, ending)}")
        if ending.interrupted:
            out.print(f"next:     {made.next}")
        return
    for line in best_lines(_member(session, made.record), _lineage(session, made.record)):
        out.print(f"  {line}")
    if made.path:
        out.print(f"kernel:   {made.path}")
    else:
        out.print(f"kernel:   none is written: {unproven_reason(made.record)}")
    out.print(f"evidence: {evidence(made)}")
    out.print(f"next:     {made.next}")


def _without_winner(made: Optimized, ending: "Ending") -> str:
    """Why there is no kernel to show."""
    if ending.best is not None:
        return f"none of the best {'is known to hold' if made.unsettled else 'held when evaluated at length'}"
    return "no generation is finished yet" if ending.interrupted else "no kernel was right"


def evidence(made: Optimized) -> str:
    """What stands behind the result, in a line."""
    record = made.record
    assert record is not None
    checked = record.checked or CheckFacts()
    gain = f"{made.gain:.2f}× the first kernel, " if made.gain else ""
    calls = f"{pluralize(checked.calls, 'call')} on {pluralize(len(checked.cases), 'case')}"
    where = f"{record.environment.device}; record {record.key[:12]} ({shell_line('warpsmith', 'show', made.run.name)})"
    return f"{gain}{score_text(made.score)}; {calls} were right on {where}"


def _member(session: "Session", record: Record) -> "RankedKernel | None":
    """The kernel of a record as the search knows it."""
    return next((one for one in session.search.state.population.members if one.id == record.candidate.id), None)


def _lineage(session: "Session", record: Record) -> tuple[str, ...]:
    """Where the best kernel came from, oldest first."""
    entries = session.archive.lineage(record.candidate.id, session.run.name)
    return tuple(f"{entry.tags.proposal} {entry.tags.operator}".strip() for entry in entries)
