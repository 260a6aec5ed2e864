"""`warpsmith ask RUN`: the next prompts of a search as files, for whoever can write kernels."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.app import Wishes
from warpsmith.base import shell_line
from warpsmith.cli._letters import ANSWER, write_letters
from warpsmith.cli._options import Jobs, Json, Trust
from warpsmith.cli._output import console, print_json
from warpsmith.records import ANSWERS, ELSEWHERE, REQUESTS, Direction, Model

if TYPE_CHECKING:
    from warpsmith.app import Session
    from warpsmith.llm import Prompt
    from warpsmith.search import Dialogue


class AskedFiles(Model):
    """What was written: the run, the folder, the names of the questions, and what to do next."""

    run: str
    folder: str
    names: tuple[str, ...]
    next: str


def command(
    run: Annotated[str, typer.Argument(help="The name of a run; one that is new needs --task.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    number: Annotated[
        int | None, typer.Option("-n", min=1, max=256, help="How many proposals; as before, or 8.")
    ] = None,
    task: Annotated[str, typer.Option(help="Begin the run for this task.")] = "",
    direction: Annotated[Direction | None, typer.Option(help="Which pass; forward by default.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="A kernel to begin with instead of the seed.")] = None,
    device: Annotated[str | None, typer.Option(help="Where kernels are evaluated: cuda, vgpu or auto.")] = None,
    gpu: Annotated[str | None, typer.Option(help="The GPU that the virtual one models.")] = None,
    elsewhere: Annotated[
        bool | None,
        typer.Option("--elsewhere/--here", help="Whether another machine evaluates: tell --requests, --results."),
    ] = None,
    reviews: Annotated[bool, typer.Option("--reviews", help="Ask for reviews of what waits for evaluation.")] = False,
    who: Annotated[str | None, typer.Option(help="The name of whoever answers, for the record.")] = None,
    record: Annotated[Path | None, typer.Option(help="Keep questions and answers of a new run in this file.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer a new run from such a file.")] = None,
    jobs: Jobs = 2,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Write self-contained prompts, one a file; `warpsmith tell RUN DIR` takes the answers."""
    from warpsmith.app import is_here, open_dialogue, wait_for
    from warpsmith.archive import Archive
    from warpsmith.search import Dialogue

    wishes = Wishes.asked(
        target=task,
        direction=direction,
        device=device,
        gpu=gpu,
        proposals=number,
        run=run,
        start=start,
        trust=trust,
        who=who,
        elsewhere=elsewhere,
        record=record and record.absolute(),
        replay=replay and replay.absolute(),
    )
    answers: dict[str, str] = {}
    with Archive.open() as archive, ExitStack() as until:
        session = open_dialogue(archive, wishes, "ask", until)
        dialogue, here = Dialogue(session.search, jobs=jobs), is_here(session.wishes)
        if reviews:
            prompts = _reviews(session)
        else:
            waits = _begun(session, dialogue, here, until)
            prompts = {} if waits else {one.slot.name: _page(one.prompt) for one in dialogue.questions()}
            answers = _replayed(session, dialogue)
            left = ELSEWHERE if session.search.ledger.waiting() else REQUESTS
            wait_for(session, ANSWERS if here or prompts else left)
        write_letters(out, run, prompts, answers)
    after = _next(run, out, here or bool(prompts)) + (" --requests F.jsonl" if prompts and not here else "")
    asked = AskedFiles(run=run, folder=str(out), names=tuple(prompts), next=after)
    if as_json:
        print_json(asked)
    else:
        _print(asked)
    return 0


def _begun(session: "Session", dialogue: "Dialogue", here: bool, until: ExitStack) -> bool:
    """Evaluate the kernel that the run begins with; where it cannot be done here it is the first to be requested."""
    from warpsmith.app import evaluator_here

    slots = session.search.next_slots()
    first = bool(slots) and all(not slot.model for slot in slots)
    if first and here:
        dialogue.evaluate(evaluator_here(session, 1, until))
        return False
    return first


def _replayed(session: "Session", dialogue: "Dialogue") -> dict[str, str]:
    from warpsmith.llm import Transcript

    return dialogue.replayed(Transcript(session.wishes.replay)) if session.wishes.replay else {}


def _page(prompt: "Prompt") -> str:
    return f"{prompt.system}\n\n{prompt.user}"


def _reviews(session: "Session") -> dict[str, str]:
    """A question a reviewer for each candidate that waits for its evaluation."""
    from warpsmith.evaluation.verify import ReviewedKernel, ReviewerRole, review_prompt

    found: dict[str, str] = {}
    for one in session.search.ledger.waiting():
        subject = ReviewedKernel(one.candidate, session.task)
        for role in ReviewerRole:
            found[f"{one.proposal.slot.name}.{role}"] = _page(review_prompt(subject, role))
    return found


def _next(run: str, out: Path, asked: bool) -> str:
    if asked:
        return shell_line("warpsmith", "tell", run, out)
    return shell_line("warpsmith", "tell", run, "--requests", "F.jsonl")


def _print(asked: AskedFiles) -> None:
    if asked.names:
        text = f"{len(asked.names)} questions in {asked.folder}; write each answer to NAME{ANSWER} there, then:"
    else:
        text = "Nothing is to be asked before what is there is evaluated:"
    console().print(f"{text}\n{asked.next}")
