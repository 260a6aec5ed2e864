"""`warpsmith best RUN`: the best kernel of a search, as a file or on stdout."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith.app import best
from warpsmith.base import shell_line
from warpsmith.cli._archive import score_text
from warpsmith.cli._options import Json, Unproven
from warpsmith.cli._output import console, print_error, print_json


def command(
    run: Annotated[str, typer.Argument(help="The name of a run.")],
    out: Annotated[Path | None, typer.Option(help="The file to write; in the data folder by default.")] = None,
    source: Annotated[bool, typer.Option("--source", help="Print the kernel's text and write no file.")] = False,
    unproven: Unproven = False,
    as_json: Json = False,
) -> int:
    """Write the best kernel, and print its path, score and eval command; exit code 4 for none."""
    found = best(run, out, allow_unproven=unproven, is_written=not source)
    if found is None:
        why = shell_line("warpsmith", "show", run)
        message = f"Run {run} has no kernel that was right and timed. {why} says how they ended."
        return print_error("none", message, 4, as_json)
    if as_json:
        print_json(found)
    elif source:
        # The text as it is: a second newline would change the kernel's hash.
        print(found.source, end="" if found.source.endswith("\n") else "\n")
    else:
        console().print(f"{found.path}\n{score_text(found.score, found.unproven)}\n{found.command}")
    return 0
