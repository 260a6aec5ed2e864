"""`warpsmith show RUN`: one search on a page."""

from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith import app
from warpsmith.base import shell_line
from warpsmith.cli._archive import score_text
from warpsmith.cli._options import Json
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.records import ELSEWHERE, RunState

if TYPE_CHECKING:
    from warpsmith.archive import ArchivedKernel, RunSummary

SHORT = 12  # shown digits of an id


def command(run: Annotated[str, typer.Argument(help="The name of a run.")], as_json: Json = False) -> int:
    """Show a run: settings, outcomes of its evaluations, best kernel with lineage, cost of the models."""
    found = app.show_run(run)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return 0


def _print(found: "RunSummary") -> None:
    run, out = found.run, console()
    out.print(f"{run.name}: {run.task}, {run.direction}, on {run.device}", style="bold")
    ended = f" to {run.finished:%Y-%m-%d %H:%M:%S}" if run.finished else ""
    out.print(f"  {found.stands}; {run.started:%Y-%m-%d %H:%M:%S}{ended} UTC")
    out.print(f"  seed {run.seed}; warpsmith {run.package or '?'}")
    if run.command:
        out.print(f"  {run.command}")
    for name, value in run.settings.items():
        out.print(f"  {name} = {value}")
    if found.outcomes:
        rows = [(one.stage or "-", one.verdict.value, one.reason or "-", str(one.count)) for one in found.outcomes]
        print_table(("ended at", "verdict", "reason", "evaluations"), rows)
    if found.calls:
        _print_calls(found)
    _print_best(found)
    for line in () if found.stands == RunState.RUNNING else _next(found):
        out.print(line)


def _print_calls(found: "RunSummary") -> None:
    rows = [
        (
            one.model,
            one.operator or "-",
            str(one.calls),
            str(one.input_tokens),
            str(one.output_tokens),
            f"{one.usd:.4f}",
        )
        for one in found.calls
    ]
    print_table(("model", "operator", "calls", "tokens in", "tokens out", "US dollars"), rows)


def _print_best(found: "RunSummary") -> None:
    out = console()
    if found.best is None:
        out.print("No kernel was right and timed yet.")
    else:
        out.print(f"best: {score_text(found.best.score, found.best.unproven)}", style="bold")
        print_table(("generation", "kernel", "by", "score"), [_line(kernel) for kernel in found.lineage])
        out.print(shell_line("warpsmith", "best", found.run.name))


def _next(found: "RunSummary") -> list[str]:
    """Return the commands that continue the run; after a wrong first kernel, the command of a new run."""
    run = found.run
    if run.waits and run.why != ELSEWHERE:
        away = ["--requests", "F.jsonl"] if run.settings.get("elsewhere") == "True" else []
        return [run.go_on, shell_line("warpsmith", "tell", run.name, "DIR", *away)]
    if run.state is RunState.FAILED and found.best is None and found.evaluations:
        options = ("--direction", run.direction.value, "--from", "KERNEL")
        return [shell_line("warpsmith", "optimize", run.target, *options)]
    return [] if run.state is RunState.DONE else [run.go_on]


def _line(kernel: "ArchivedKernel") -> tuple[str, str, str, str]:
    who = " by ".join(word for word in (kernel.operator, kernel.model) if word) or kernel.origin
    macros = " ".join(f"{name}={value}" for name, value in kernel.macros.items())
    return str(kernel.generation), kernel.candidate[:SHORT], f"{who} {macros}".strip(), score_text(kernel.score)
