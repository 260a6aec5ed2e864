"""`warpsmith best RUN`: the best kernel of a search, as a file or on stdout."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith.base import shell_line
from warpsmith.cli._archive import kernel_path, score_text, write_kernel
from warpsmith.cli._options import Json
from warpsmith.cli._output import console, print_error, print_json
from warpsmith.records import Model, Record, Score

UNWRITTEN = "KERNEL.cu"  # stands in the command for the file that a caller makes of the text


class Best(Model):
    """The best kernel: where its text was written, its score, how to evaluate it again, and its whole record."""

    path: str  # empty where no file was written
    score: Score | None
    command: str
    record: Record


def command(
    run: Annotated[str, typer.Argument(help="The name of a run.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the kernel; in the data folder by default.")] = None,
    source: Annotated[bool, typer.Option("--source", help="Print the kernel's text and write no file.")] = False,
    as_json: Json = False,
) -> int:
    """Write the best kernel out and print its path, its score and how to evaluate it again; exit code 4 for none."""
    from warpsmith.archive import Archive

    with Archive.open() as archive:
        found, entry = archive.run(run), archive.best(run)
    if entry is None:
        why = shell_line("warpsmith", "show", run)
        message = f"Run {run} has no kernel that was right and timed. {why} says how they ended."
        return print_error("none", message, 4, as_json)
    candidate = entry.record.candidate
    path = Path(UNWRITTEN) if source else write_kernel(out or kernel_path(run), candidate.source).absolute()
    again = found.eval_command(entry.record, str(path))
    if as_json:
        print_json(Best(path="" if source else str(path), score=entry.score, command=again, record=entry.record))
    elif source:
        print(candidate.source, end="" if candidate.source.endswith("\n") else "\n")
    else:
        console().print(f"{path}\n{score_text(entry.score)}\n{again}")
    return 0
