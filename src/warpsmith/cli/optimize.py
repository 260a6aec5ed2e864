"""`warpsmith optimize`: search for a faster kernel, with models or without, on a GPU or without."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith import app
from warpsmith.app import Optimized, SearchOpened, SearchReport
from warpsmith.base import pluralize, shell_line
from warpsmith.cli._archive import score_text
from warpsmith.cli._live import best_lines, display
from warpsmith.cli._options import Jobs, Json, Pool, Trust
from warpsmith.cli._output import console, print_json
from warpsmith.evaluation import is_measured
from warpsmith.records import CheckFacts, Direction, unproven_reason
from warpsmith.search import SearchConfig

INTERRUPTED = 130
MODELS_HELP = "PROVIDER:MODEL[,setting=value]; several with a semicolon between them. The tuner alone by default."
REVIEWERS_HELP = "Reviews by models before an evaluation: compile, memory, numerical, cheating; more with commas."


def command(
    target: Annotated[str, typer.Argument(help="A task, as for eval; not needed with --resume.")] = "",
    direction: Annotated[Direction | None, typer.Option(help="The direction; forward by default.")] = None,
    device: Annotated[str | None, typer.Option(help="cuda, vgpu (the virtual GPU), or auto.")] = None,
    models: Annotated[str | None, typer.Option(help=MODELS_HELP)] = None,
    generations: Annotated[int | None, typer.Option(min=0, help="The most generations; 10 by default.")] = None,
    proposals: Annotated[int | None, typer.Option(min=1, help="Proposals in a generation; 8 by default.")] = None,
    evaluate: Annotated[
        int | None, typer.Option(min=1, help="Evaluated proposals of models in a generation; 4 by default.")
    ] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="US dollars for models; 0 asks no model.")] = None,
    budget_minutes: Annotated[float | None, typer.Option(min=0, help="Minutes for this call.")] = None,
    budget_evaluations: Annotated[
        int | None, typer.Option(min=1, help="Evaluations of the search, without the final evaluation of its winner.")
    ] = None,
    goal: Annotated[float | None, typer.Option(min=0, help="End at this gain over the first kernel.")] = None,
    roofline: Annotated[float | None, typer.Option(min=0, max=1, help="End at this share of the roofline.")] = None,
    patience: Annotated[int | None, typer.Option(min=1, help="End after so many generations without gain.")] = None,
    drafts: Annotated[int | None, typer.Option(min=1, help="First kernels to ask for at once; 2 by default.")] = None,
    attempts: Annotated[int | None, typer.Option(min=1, help="The most rounds of translation; 10 by default.")] = None,
    reviewers: Annotated[str | None, typer.Option(help=REVIEWERS_HELP)] = None,
    run: Annotated[str, typer.Option(help="The name of the run; made from the task and the time by default.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Continue --run NAME.")] = False,
    start: Annotated[Path | None, typer.Option("--from", help="A kernel to start from instead of the seed.")] = None,
    record: Annotated[Path | None, typer.Option(help="Record the models' traffic in this file.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Answer from such a file, without key or network.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of the search.")] = None,
    gpu: Annotated[str | None, typer.Option(help="The GPU that the virtual GPU models; H200 by default.")] = None,
    jobs: Jobs = os.cpu_count() or 1,
    trust: Trust = False,
    pool: Pool = True,
    as_json: Json = False,
) -> int:
    """Search for a faster kernel; Ctrl-C saves everything, and --resume continues."""
    # Only options that were given reach the configuration: a resumed run keeps its saved ones.
    config = SearchConfig.from_options(
        target=target,
        direction=direction,
        device=device,
        models=models,
        generations=generations,
        proposals=proposals,
        evaluate=evaluate,
        budget_usd=budget_usd,
        budget_minutes=budget_minutes,
        budget_evaluations=budget_evaluations,
        goal=goal,
        roofline=roofline,
        patience=patience,
        drafts=drafts,
        attempts=attempts,
        reviewers=reviewers,
        run=run,
        resume=resume,
        start=start,
        record=record,
        replay=replay,
        seed=seed,
        gpu=gpu,
        jobs=jobs,
        pool=pool,
        trust=trust,
    )
    with display(f"warpsmith optimize {target or run}", is_measured(config.device), as_json) as shown:

        def show(event: Any) -> None:
            if isinstance(event, SearchOpened):
                shown.name(f"{event.run.name}: {event.task}, {event.run.direction}, on {event.run.device}")
            else:
                shown.show(event)

        report = app.run_search(config, show)
    if as_json:
        print_json(report.result)
    else:
        _print(report)
    # 4: the search ended without a kernel, which is neither a failure nor a fault.
    return INTERRUPTED if report.ending.interrupted else 0 if report.result.record is not None else 4


def _print(report: SearchReport) -> None:
    out, found, ending = console(), report.result, report.ending
    out.print(f"{found.run.name}: {ending.why}", style="bold")
    length = f", {found.at_length} of them at length," if found.at_length else ""
    count = pluralize(found.evaluations, "evaluation")
    out.print(f"  {count}{length} in {found.minutes:.1f} minutes, {found.usd:.3f} dollars")
    funnel = ", ".join(f"{count} {word}" for word, count in sorted(ending.funnel.items(), key=lambda pair: -pair[1]))
    if funnel:
        out.print(f"  verdicts: {funnel}")
    # Errors of models and of the harness did not end the search, so they are listed at the end.
    for failure in ending.failures:
        out.print(f"  lost: {failure}")
    for better in found.unsettled:
        out.print(f"  not evaluated at length: {better}; --run {found.run.name} --resume tries again")
    if found.record is None:
        out.print(f"  {_no_winner(report)}")
        if ending.interrupted:
            out.print(f"next:     {found.next}")
        return
    for line in best_lines(report.best, report.lineage):
        out.print(f"  {line}")
    if found.path:
        # A kernel without a full evaluation is not written as the result.
        out.print(f"kernel:   {found.path}")
    else:
        out.print(f"kernel:   none is written: {unproven_reason(found.record)}")
    out.print(f"evidence: {_evidence(found)}")
    out.print(f"next:     {found.next}")


def _no_winner(report: SearchReport) -> str:
    """Return why there is no kernel to show."""
    ending = report.ending
    # A search result that its final evaluation refuted is named, so that the user does not look for it.
    if ending.best is not None:
        return f"none of the best {'is known to hold' if report.result.unsettled else 'held when evaluated at length'}"
    return "no generation is finished yet" if ending.interrupted else "no kernel was right"


def _evidence(found: Optimized) -> str:
    """Return the calls, the score and the record that support the result, as one line."""
    record = found.record
    assert record is not None
    checked = record.checked or CheckFacts()
    gain = f"{found.gain:.2f}× the first kernel, " if found.gain else ""
    calls = f"{pluralize(checked.calls, 'call')} on {pluralize(len(checked.cases), 'case')}"
    where = f"{record.environment.device}; record {record.key[:12]} ({shell_line('warpsmith', 'show', found.run.name)})"
    return f"{gain}{score_text(found.score)}; {calls} were right on {where}"
