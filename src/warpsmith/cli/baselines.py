"""`warpsmith baselines`: torch's modes on the timing cases, measured once so that evaluations find them kept."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.base import MachineError
from warpsmith.cli._options import Baselines, Json, read_modes
from warpsmith.cli._output import console, print_json
from warpsmith.records import MODES, Direction

if TYPE_CHECKING:
    from warpsmith.evaluation import BaselineRow, Prepared, Wanted

CORES = os.cpu_count() or 1
USUAL_JOBS = max(1, min(8, CORES // 2))
JOBS_HELP = "How many processes compile at once; half the cores by default, at most 8."


def command(
    tasks: Annotated[list[str] | None, typer.Argument(help="Tasks; the whole suite by default.")] = None,
    direction: Annotated[Direction | None, typer.Option(help="Which pass; both by default.")] = None,
    baselines: Baselines = "",
    again: Annotated[bool, typer.Option("--again", help="Measure what is kept already, too.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help=JOBS_HELP)] = USUAL_JOBS,
    as_json: Json = False,
) -> int:
    """Measure torch's modes for later evaluations; called again it goes on. Exit code 3 where a case has no time."""
    from warpsmith.evaluation import BaselineScope, measure_each, measure_flush_us, wanted
    from warpsmith.machines.hardware import Need, gpus, lease

    modes, every = read_modes(baselines) or MODES, wanted(tasks or [], direction)
    if not gpus():
        raise MachineError("Baselines are torch's times on a GPU; this machine has none that this process may use.")
    place = BaselineScope.here(modes)
    with lease(Need.ALONE):
        flush_us = measure_flush_us()
    kept = {one.name for one in every if not again and place.whole(one, flush_us)}
    _prepare([one for one in every if one.name not in kept], modes, jobs, as_json)
    rows = []
    for row in measure_each(every, place, None if again else flush_us, measure_flush_us):
        rows.append(row)
        if not as_json:
            console().print(line(row))
    if as_json:
        print_json(rows)
    return 3 if any(row.error for row in rows) else 0


def line(row: "BaselineRow") -> str:
    """What is known of a case."""
    name = f"{row.task} {row.direction} {row.case}"
    if row.baselines is None:
        return f"{name}: {row.error}"
    times = ", ".join(f"{one.mode} {one.us:.2f}" for one in row.baselines.modes)
    left = "; kept from earlier, --again measures it" if row.left else ""
    return "; ".join([f"{name}: {times} µs; best {row.baselines.best.mode}{left}", *row.baselines.notes()])


def _prepare(every: "list[Wanted]", modes: tuple[str, ...], jobs: int, quiet: bool) -> None:
    """Compile what can be compiled beside others; what fails here is compiled again when it is timed."""
    from warpsmith.evaluation import preparable, prepare
    from warpsmith.evaluation.timing import BaselineProcess
    from warpsmith.tasks.suite import folders

    some = [one for one in every if preparable(one, modes)]
    ours, compilers = next(iter(folders())), max(2, CORES // jobs)
    for number, found in enumerate(prepare(some, modes, lambda: BaselineProcess(ours, compilers), jobs), 1):
        if not quiet:
            console().print(f"compiled {number} of {len(some)}: {prepared_line(found)}")


def prepared_line(found: "Prepared") -> str:
    """A case that was compiled, and what was not."""
    failed = [f"{mode} not yet: {why}" for mode, why in found.failed.items()]
    return "; ".join([f"{found.one.name} in {found.seconds:.0f} s", *failed])
