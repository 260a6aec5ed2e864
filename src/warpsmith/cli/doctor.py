"""`warpsmith doctor`: the parts of this machine that warpsmith uses, and the remedy for each missing one."""

from warpsmith import app
from warpsmith.app import PartState
from warpsmith.cli._options import Json
from warpsmith.cli._output import coloured, console, print_json

COLOURS = {PartState.OK: "green", PartState.PARTIAL: "yellow", PartState.MISSING: "red"}


def command(as_json: Json = False) -> None:
    """Show the GPU, compilers, confinement, profilers and model keys of this machine."""
    parts = app.diagnose()
    if as_json:
        print_json(parts)
        return
    out = console()
    for part in parts:
        out.print(coloured((f"{part.state:<7}", COLOURS[part.state]), f"  {part.name:<18}{part.found}"))
        if part.remedy:
            out.print(f"{'':27}→ {part.remedy}", style="dim")
