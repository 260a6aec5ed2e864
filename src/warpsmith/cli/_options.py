"""Options that more than one command takes."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of text for a person.")]
Target = Annotated[str, typer.Argument(help="A suite task, a task folder, a KernelBench file, or file.py:Name.")]
