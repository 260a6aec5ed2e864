"""`warpsmith tell RUN DIR`: answers to what was asked, verified and evaluated here or elsewhere."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import Wishes, each_said, finish, refused
from warpsmith.base import RECORDS_BYTES, MachineError, UsageError, read_text, write_atomic
from warpsmith.cli._letters import read_letters
from warpsmith.cli._live import best_lines
from warpsmith.cli._options import Jobs, Json, Trust
from warpsmith.cli._output import console, print_json
from warpsmith.records import ANSWERS, ASK, ELSEWHERE, Model, Record

if TYPE_CHECKING:
    from warpsmith.app import Session
    from warpsmith.llm import TranscriptFile
    from warpsmith.search import Dialogue, Told


class Report(Model):
    """What telling came to, for a program."""

    run: str
    lines: tuple[str, ...]
    closed: bool  # whether the generation is complete
    waiting: int  # for their evaluation elsewhere
    unanswered: tuple[str, ...]
    best: str = ""
    next: str = ""


def command(
    run: Annotated[str, typer.Argument(help="The name of a run.")],
    folder: Annotated[Path | None, typer.Argument(help="The folder that ask wrote, with the answers in it.")] = None,
    requests: Annotated[Path | None, typer.Option(help="Verify here, and write what is to be evaluated.")] = None,
    results: Annotated[Path | None, typer.Option(help="Take the records that eval-batch made of requests.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Give up the questions that nobody answered.")] = False,
    jobs: Jobs = 2,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Take answers or records; a question that is not answered stays open."""
    from warpsmith.app import open_dialogue, screen_with, wait_for
    from warpsmith.archive import Archive
    from warpsmith.search import Dialogue

    if requests is not None and results is not None:
        raise UsageError("--requests and --results exclude each other: one before the evaluation, one after it.")
    with Archive.open() as archive, ExitStack() as until:
        archive.run(run)
        session = open_dialogue(archive, Wishes(target="", run=run, trust=trust), "tell", until)
        answers, reviews = _letters(folder, run)
        _check_place(session.wishes, away=requests is not None or results is not None)
        missing = _missing() if requests is not None else ""
        looked = not missing and (requests is not None or bool(reviews))
        dialogue = Dialogue(session.search, screen_with(session, reviews) if looked else None, jobs, _tape(session))
        if answers:
            dialogue.answer(answers)
        late = dialogue.untaken(answers)
        if drop:
            dialogue.drop()
        told = _told(session, dialogue, requests, results, jobs)
        wait_for(session, ELSEWHERE if told.waiting else ANSWERS if told.unanswered else ASK)
        report = _report(session, told, requests, [*filter(None, [missing]), *late])
    if as_json:
        print_json(report)
    else:
        console().print("\n".join(_lines(report)))
    return 0


def _letters(folder: Path | None, run: str) -> tuple[dict[str, str], dict[str, str]]:
    """The answers in a folder, and the reviews of them, whose names have a reviewer's between the dots."""
    texts = dict(read_letters(folder, run)) if folder is not None else {}
    reviews = {name: text for name, text in texts.items() if name.count(".") > 1}
    return {name: text for name, text in texts.items() if name not in reviews}, reviews


def _check_place(wishes: Wishes, away: bool) -> None:
    """That kernels are evaluated where this call would have it."""
    from warpsmith.app import check_here, is_here

    check_here(wishes, away)
    if not away and not is_here(wishes):
        raise UsageError(
            f"Kernels of run {wishes.run} are evaluated elsewhere: --requests F.jsonl writes what is to be evaluated, "
            f"--results R.jsonl takes the records. `warpsmith ask {wishes.run} --here --out DIR` brings the run here."
        )


def _told(session: "Session", dialogue: "Dialogue", requests: Path | None, results: Path | None, jobs: int) -> "Told":
    from warpsmith.app import evaluator_here

    if results is not None:
        records, bad = read_results(results)
        told = dialogue.results(records)
        return replace(told, lines=(*bad, *told.lines))
    if requests is None:
        with ExitStack() as until:
            told = dialogue.evaluate(evaluator_here(session, min(jobs, dialogue.ready), until))
        return replace(told, lines=(*told.lines, *_finished(session)))
    told = dialogue.requests()
    lines = [one.candidate.model_copy(update={"task": session.run.target}).text() for one in told.waiting]
    write_atomic(requests, "".join(f"{line}\n" for line in lines))
    return told


def _finished(session: "Session") -> list[str]:
    """Evaluate the best kernel fully, and return what is known of it and of better ones that do not hold."""
    if session.wishes.record or session.wishes.replay:  # a recorded run asks the same again, whatever else is known
        return []
    found = finish(session)
    lines = [f"wrong when evaluated fully: {one}" for one in found.refuted]
    lines += [f"not evaluated fully: {one}" for one in found.unsettled]
    best = session.search.state.population.best
    return [*lines, f"evaluated fully: {best.name}: pass"] if found.winner is not None and best else lines


def read_results(path: Path) -> tuple[list[Record], list[str]]:
    """The records of a file of results, and a line for each line that is none."""
    text = read_text(path, RECORDS_BYTES).split("\n")
    lines = list(each_said(text))
    bad = [f"line {number} of {path} holds no record: {one}" for number, one in lines if isinstance(one, str)]
    if len(bad) == len(lines) and not any(map(refused, text)):
        raise UsageError(f"{path} holds no result: --results takes what eval-batch wrote of a file of requests.")
    return [one for _, one in lines if isinstance(one, Record)], bad


def _missing() -> str:
    """Why answers cannot be verified on this machine; empty where they can."""
    from warpsmith.languages.nvcc import Toolchain

    try:
        Toolchain.find()
    except MachineError as error:
        return f"not verified here: {error}"
    return ""


def _tape(session: "Session") -> "TranscriptFile | None":
    """Where a recorded run keeps its questions and answers."""
    from warpsmith.llm import TranscriptFile, TranscriptModel

    path = session.wishes.record
    return TranscriptFile(path, [TranscriptModel(name=session.wishes.who or "")]) if path else None


def _report(session: "Session", told: "Told", requests: Path | None, first: Sequence[str]) -> Report:
    name = session.run.name
    best = "; ".join(best_lines(session.search.state.population.best))
    if told.waiting:
        file = requests or Path("F.jsonl")
        claim = " --claim" if session.run.device == "cuda" else ""  # the winner is handed out with no other evaluation
        after = f"warpsmith eval-batch {file}{claim} > R.jsonl, then warpsmith tell {name} --results R.jsonl"
    elif told.unanswered:
        after = f"answer {', '.join(told.unanswered)} and tell again, or give them up with --drop"
    else:
        after = f"warpsmith ask {name} --out DIR"
    return Report(
        run=name,
        lines=(*first, *told.lines),
        closed=told.closed,
        waiting=len(told.waiting),
        unanswered=told.unanswered,
        best=best,
        next=after,
    )


def _lines(report: Report) -> Sequence[str]:
    def parts() -> Iterator[str]:
        yield from (f"  {line}" for line in report.lines)
        if report.waiting:
            yield f"  {report.waiting} wait for their evaluation elsewhere"
        if report.unanswered:
            yield f"  not answered: {', '.join(report.unanswered)}"
        yield report.best
        yield f"next: {report.next}"

    return list(parts())
