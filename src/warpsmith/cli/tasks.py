"""`warpsmith tasks`: list, show and filter tasks."""

from typing import Annotated

import typer

from warpsmith.cli._options import Json, Shapes, Target
from warpsmith.cli._output import console, print_json, print_table
from warpsmith.cli.tasks_filter import filter_tasks
from warpsmith.records import Direction, Group, Model, Task

group = typer.Typer(add_completion=False, help="List, show and filter tasks.")
group.command("filter")(filter_tasks)


class Skeleton(Model):
    """A kernel file to start from."""

    task: str
    direction: Direction
    language: str
    source: str


@group.command("list")
def list_tasks(as_json: Json = False) -> None:
    """List the tasks of the suite."""
    from warpsmith.tasks.suite import suite

    found = suite()
    if as_json:
        print_json([_row(task) for task in found])
        return
    rows = [
        (task.name, ", ".join(task.directions), ", ".join(_dtypes(task)), str(len(task.cases)), task.description)
        for task in found
    ]
    print_table(("task", "directions", "element types", "cases", "what it is"), rows)


def _dtypes(task: Task) -> list[str]:
    return list(dict.fromkeys(case.dtype.value for case in task.cases))


def _row(task: Task) -> dict[str, object]:
    return {
        "name": task.name,
        "version": task.version,
        "description": task.description,
        "directions": [direction.value for direction in task.directions],
        "dtypes": _dtypes(task),
        "cases": {group.value: len(task.group(group)) for group in Group if task.group(group)},
    }


@group.command("show")
def show(
    target: Target,
    skeleton: Annotated[bool, typer.Option("--skeleton", help="Print a kernel file with the exact signature.")] = False,
    direction: Annotated[Direction, typer.Option(help="The direction, for --skeleton.")] = Direction.FORWARD,
    language: Annotated[str, typer.Option(help="The language, for --skeleton: torch or plain.")] = "torch",
    inputs: Shapes = None,
    as_json: Json = False,
) -> None:
    """Show a task: function, signatures, cases, tolerance; or a kernel file to start from."""
    from warpsmith.tasks.host import OpenOptions, open_task
    from warpsmith.tasks.inputs import read_shape

    options = OpenOptions(shapes=tuple(read_shape(text) for text in inputs or []))
    with open_task(target, options) as opened:
        task = opened.describe()
    if skeleton:
        from warpsmith.languages import skeleton as write

        made = Skeleton(task=task.name, direction=direction, language=language, source=write(task, direction, language))
        print_json(made) if as_json else print(made.source, end="")
    elif as_json:
        print_json(task)
    else:
        _print_task(task)


def _print_task(task: Task) -> None:
    out = console()
    out.print(f"{task.name}  {task.description}", style="bold")
    out.print(f"version {task.version[:12]} · {task.origin} · libraries: {', '.join(task.libraries) or 'none'}\n")
    out.print(task.source.strip())
    for direction in task.directions:
        signature = task.signature(direction)
        taken = ", ".join(f"{a.name}: {a.kind}" for a in signature.arguments)
        out.print(f"\n{direction}({taken}) -> {', '.join(signature.results)}")
        if cost := task.cost.get(direction):
            out.print(f"  flops {cost.flops} · bytes {cost.bytes}")
        for name, work in task.work.get(direction, {}).items():
            out.print(f"  {name}: flops {work.flops:,.0f} · bytes {work.bytes:,.0f}, as counted")
    rows = [
        (
            case.name,
            case.group.value,
            " ".join(f"{axis}={size}" for axis, size in case.axes.items()),
            case.dtype.value,
            " ".join(case.inits),
            " ".join(case.families),
        )
        for case in task.cases
    ]
    print_table(("case", "group", "axes", "type", "inits", "families"), rows)
    for line in task.shape_lines:
        out.print(line)
    if task.heldout:
        spans = ", ".join(f"{n} {r.low}–{r.high}" for n, r in task.heldout.axes.items())
        out.print(f"held-out, drawn with a secret seed: {spans}")
