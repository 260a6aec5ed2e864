"""`warpsmith ask RUN`: the next prompts of a search as files."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import ANSWER, AskedFiles
from warpsmith.cli._options import Jobs, Json, Trust
from warpsmith.cli._output import console, print_json
from warpsmith.records import Direction
from warpsmith.search import SearchConfig


def command(
    run: Annotated[str, typer.Argument(help="The name of a run; a new one needs --task.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    number: Annotated[
        int | None, typer.Option("-n", min=1, max=256, help="The number of proposals; by default as before, or 8.")
    ] = None,
    task: Annotated[str, typer.Option(help="Begin the run for this task.")] = "",
    direction: Annotated[Direction | None, typer.Option(help="The direction; forward by default.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="A kernel to begin with instead of the seed.")] = None,
    device: Annotated[str | None, typer.Option(help="Where kernels are evaluated: cuda, vgpu or auto.")] = None,
    gpu: Annotated[str | None, typer.Option(help="The GPU that the virtual GPU models.")] = None,
    elsewhere: Annotated[
        bool | None,
        typer.Option("--elsewhere/--here", help="Whether another machine evaluates: tell --requests, --results."),
    ] = None,
    reviews: Annotated[bool, typer.Option("--reviews", help="Ask for reviews of waiting candidates.")] = False,
    who: Annotated[str | None, typer.Option(help="The name of who answers, for the record.")] = None,
    record: Annotated[Path | None, typer.Option(help="Save prompts and answers of a new run in this file.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer a new run from such a file.")] = None,
    jobs: Jobs = 2,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Write self-contained prompts, one file each; `warpsmith tell RUN DIR` takes the answers."""
    config = SearchConfig.from_options(
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
    asked = app.ask(config, out, reviews, jobs)
    if as_json:
        print_json(asked)
    else:
        _print(asked)
    return 0


def _print(asked: AskedFiles) -> None:
    if asked.names:
        text = f"{len(asked.names)} questions in {asked.folder}; write each answer to NAME{ANSWER} there, then:"
    else:
        text = "Nothing is to be asked before what is there is evaluated:"
    console().print(f"{text}\n{asked.next}")
