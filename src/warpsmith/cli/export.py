"""`warpsmith export`: a kernel that passed, or the kernels of both directions, as an installable Python package."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.app import Exported, ExportRequest
from warpsmith.base import shell_line
from warpsmith.cli._options import Json, Macros, Unproven, read_macros
from warpsmith.cli._output import console, print_error, print_json

TASK_HELP = "The task as eval takes it; by default the run's, or the name of the kernel's folder."


def command(
    subjects: Annotated[list[str], typer.Argument(help="A run, a .cu file or a record; a second for the other pass.")],
    to: Annotated[Path, typer.Option(help="The folder to write; new or empty.")],
    name: Annotated[str, typer.Option(help="The package's name; TASK_kernel by default.")] = "",
    task: Annotated[str, typer.Option(help=TASK_HELP)] = "",
    macro: Macros = None,
    unproven: Unproven = False,
    as_json: Json = False,
) -> int:
    """Write the package and print how to install and test it; exit code 4 for a run without a correct kernel."""
    found = app.export(ExportRequest(subjects, to, name, task, read_macros(macro or []), unproven))
    if isinstance(found, str):
        return print_error("none", f"Run {found} has no kernel that was right and timed.", 4, as_json)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return 0


def _print(found: Exported) -> None:
    console().print(f"{found.folder}: {found.name}, {' and '.join(found.directions)}", style="bold")
    for path in found.files:
        console().print(f"  {path}")
    # The printed commands can be pasted: paths are quoted.
    console().print(shell_line("pip", "install", found.folder))
    console().print(shell_line("pytest", f"{found.folder}/tests"))
