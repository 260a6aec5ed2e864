"""A search whose prompts and answers are files."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from warpsmith.app.optimization import evaluate_finalists
from warpsmith.app.prompt_files import read_answers, write_prompts
from warpsmith.app.results import batch_error, parse_results
from warpsmith.app.session import Session, check_place, dialogue_evaluator, open_dialogue, wait_for
from warpsmith.app.verifying import is_here, screen_with_reviews
from warpsmith.archive import Archive
from warpsmith.base import RECORDS_BYTES, MachineError, UsageError, read_text, shell_line, write_atomic
from warpsmith.evaluation import is_measured
from warpsmith.evaluation.verify import ReviewedKernel, ReviewerRole, review_prompt
from warpsmith.languages.nvcc import Toolchain
from warpsmith.llm import Prompt, Transcript, TranscriptFile, TranscriptModel
from warpsmith.records import ANSWERS, ASK, ELSEWHERE, REQUESTS, Model, Record
from warpsmith.search import Dialogue, SearchConfig, TellResult
from warpsmith.search.selection import RankedKernel


class AskedFiles(Model):
    """The written prompts: run, folder, names of the questions, and the next command."""

    run: str
    folder: str
    names: tuple[str, ...]
    next: str


class TellReport(Model):
    """The state of a run after `tell`."""

    run: str
    lines: tuple[str, ...]
    closed: bool  # whether the generation is complete
    waiting: int  # candidates that wait for their evaluation on another machine
    unanswered: tuple[str, ...]
    best: str = ""
    next: str = ""


@dataclass(frozen=True)
class TellRequest:
    """The answers of a folder, the records of `results`, or the file `requests` for an evaluation elsewhere."""

    run: str
    folder: Path | None = None
    requests: Path | None = None
    results: Path | None = None
    drop: bool = False  # close the questions without an answer
    jobs: int = 2
    trust: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """Whether another machine evaluates."""
        return self.requests is not None or self.results is not None


def ask(config: SearchConfig, out: Path, reviews: bool = False, jobs: int = 2) -> AskedFiles:
    """Write the next prompts of a run to a folder; a task in the configuration begins the run.

    With `reviews`, write one prompt for each reviewer of each waiting candidate instead.
    """
    answers: dict[str, str] = {}
    with Archive.open() as archive, ExitStack() as until:
        session = open_dialogue(archive, config, "ask", until)
        dialogue, here = Dialogue(session.search, jobs=jobs), is_here(session.config)
        if reviews:
            prompts = _review_prompts(session)
        else:
            # Prompts show the first kernel with its time, so it is evaluated before the first question.
            waits = _evaluate_first(session, dialogue, here, until)
            prompts = {} if waits else {one.slot.name: _page(one.prompt) for one in dialogue.open_questions()}
            answers = _recorded_answers(session, dialogue)
            left = ELSEWHERE if session.search.ledger.load_waiting() else REQUESTS
            wait_for(session, ANSWERS if here or prompts else left)
        write_prompts(out, config.run, prompts, answers)
    words = [out] if here or prompts else ["--requests", "F.jsonl"]
    command = shell_line("warpsmith", "tell", config.run, *words)
    away = " --requests F.jsonl" if prompts and not here else ""
    return AskedFiles(run=config.run, folder=str(out), names=tuple(prompts), next=f"{command}{away}")


def _evaluate_first(session: Session, dialogue: Dialogue, here: bool, until: ExitStack) -> bool:
    """Evaluate the first kernel; return True if impossible here."""
    slots = session.search.next_slots()
    # Only the slot of the first kernel has no model.
    is_first = bool(slots) and all(not slot.model for slot in slots)
    if is_first and here:
        dialogue.evaluate(dialogue_evaluator(session, 1, until))
        return False
    return is_first


def _recorded_answers(session: Session, dialogue: Dialogue) -> dict[str, str]:
    replay = session.config.replay
    return dialogue.recorded_answers(Transcript(replay)) if replay else {}


def _page(prompt: Prompt) -> str:
    return f"{prompt.system}\n\n{prompt.user}"


def _review_prompts(session: Session) -> dict[str, str]:
    """Return one prompt for each reviewer of each candidate that waits for its evaluation."""
    found: dict[str, str] = {}
    for one in session.search.ledger.load_waiting():
        kernel = ReviewedKernel(one.candidate, session.task)
        for role in ReviewerRole:
            found[f"{one.proposal.slot.name}.{role}"] = _page(review_prompt(kernel, role))
    return found


def tell(request: TellRequest) -> tuple[TellReport, RankedKernel | None]:
    """Take answers or records; return the run's state and best kernel."""
    if request.requests is not None and request.results is not None:
        raise UsageError("--requests and --results exclude each other: one before the evaluation, one after it.")
    with Archive.open() as archive, ExitStack() as until:
        archive.run(request.run)
        session = open_dialogue(archive, SearchConfig(run=request.run, trust=request.trust), "tell", until)
        answers, reviews = _read_folder(request.folder, request.run)
        _check_place(session.config, request)
        # Without a compiler the answers are still taken, and verified where they are evaluated.
        missing = _missing_compiler() if request.requests is not None else ""
        is_verified = not missing and (request.requests is not None or bool(reviews))
        screen = screen_with_reviews(session.config, session.search, reviews) if is_verified else None
        dialogue = Dialogue(session.search, screen, request.jobs, _open_transcript(session))
        # Late answers are searched after the new ones are saved; otherwise those would count as late.
        if answers:
            dialogue.answer(answers)
        late = dialogue.late_answers(answers)
        # After the answers, so that only slots without an answer are given up.
        if request.drop:
            dialogue.drop()
        found = _evaluate(session, dialogue, request)
        wait_for(session, ELSEWHERE if found.waiting else ANSWERS if found.unanswered else ASK)
        first = [*filter(None, [missing]), *late]
        return _report(session, found, request, first), session.search.state.population.best


def _read_folder(folder: Path | None, run: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the answers and the reviews of a folder; a review's name is SLOT.ROLE, with two dots or more."""
    texts = dict(read_answers(folder, run)) if folder is not None else {}
    # SLOT is GENERATION.PLACE, so an answer's name has one dot and a review's name two.
    reviews = {name: text for name, text in texts.items() if name.count(".") > 1}
    return {name: text for name, text in texts.items() if name not in reviews}, reviews


def _check_place(config: SearchConfig, request: TellRequest) -> None:
    """Raise UsageError if the run is evaluated on another machine than the request assumes."""
    check_place(config, request.is_elsewhere)
    if not request.is_elsewhere and not is_here(config):
        raise UsageError(
            f"Kernels of run {config.run} are evaluated elsewhere: --requests F.jsonl writes what is to be evaluated, "
            f"--results R.jsonl takes the records. `warpsmith ask {config.run} --here --out DIR` brings the run here."
        )


def _evaluate(session: Session, dialogue: Dialogue, request: TellRequest) -> TellResult:
    if request.results is not None:
        records, bad = read_results(request.results)
        found = dialogue.results(records)
        return replace(found, lines=(*bad, *found.lines))
    if request.requests is None:
        with ExitStack() as until:
            jobs = min(request.jobs, dialogue.ready)
            found = dialogue.evaluate(dialogue_evaluator(session, jobs, until))
        return replace(found, lines=(*found.lines, *_final_lines(session)))
    found = dialogue.requests()
    # Other machines find the task by the text that the user typed.
    lines = [one.candidate.model_copy(update={"task": session.run.target}).text() for one in found.waiting]
    write_atomic(request.requests, "".join(f"{line}\n" for line in lines))
    return found


def _final_lines(session: Session) -> list[str]:
    """Evaluate the best kernels fully, and return a line for each."""
    if session.config.record or session.config.replay:  # its next prompts must not depend on a secret seed
        return []
    found = evaluate_finalists(session)
    lines = [f"wrong when evaluated fully: {one}" for one in found.refuted]
    lines += [f"not evaluated fully: {one}" for one in found.unsettled]
    best = session.search.state.population.best
    return [*lines, f"evaluated fully: {best.name}: pass"] if found.winner is not None and best else lines


def read_results(path: Path) -> tuple[list[Record], list[str]]:
    """Return the records that eval-batch wrote, and a line for each line without a record."""
    text = read_text(path, RECORDS_BYTES).split("\n")
    lines = list(parse_results(text))
    bad = [f"line {number} of {path} holds no record: {one}" for number, one in lines if isinstance(one, str)]
    # A file of errors from eval-batch is a result: each line names the reason.
    if len(bad) == len(lines) and not any(map(batch_error, text)):
        raise UsageError(f"{path} holds no result: --results takes what eval-batch wrote of a file of requests.")
    return [one for _, one in lines if isinstance(one, Record)], bad


def _missing_compiler() -> str:
    """Return the reason against verification here, or ""."""
    try:
        Toolchain.find()
    except MachineError as error:
        return f"not verified here: {error}"
    return ""


def _open_transcript(session: Session) -> TranscriptFile | None:
    """Return the file to which a recorded run appends questions and answers."""
    path = session.config.record
    return TranscriptFile(path, [TranscriptModel(name=session.config.who or "")]) if path else None


def _report(session: Session, found: TellResult, request: TellRequest, first: Sequence[str]) -> TellReport:
    name = session.run.name
    if found.waiting:
        file = request.requests or Path("F.jsonl")
        # No other evaluation follows, and a search's own is not enough to hand the winner out.
        claim = " --claim" if is_measured(session.run.device) else ""
        command = f"warpsmith eval-batch {file}{claim} > R.jsonl, then warpsmith tell {name} --results R.jsonl"
    elif found.unanswered:
        command = f"answer {', '.join(found.unanswered)} and tell again, or give them up with --drop"
    else:
        command = f"warpsmith ask {name} --out DIR"
    return TellReport(
        run=name,
        lines=(*first, *found.lines),
        closed=found.closed,
        waiting=len(found.waiting),
        unanswered=found.unanswered,
        next=command,
    )
