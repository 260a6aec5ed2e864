"""`warpsmith runs`: every search that the archive holds."""

from warpsmith.app import stands
from warpsmith.cli._archive import score_text
from warpsmith.cli._options import Json
from warpsmith.cli._output import console, print_json, print_table


def command(as_json: Json = False) -> int:
    """List the runs, the latest first, with how they stand and the best kernel of each."""
    from warpsmith.archive import Archive, describe_run_line

    with Archive.open() as archive:
        found = [
            describe_run_line(archive, run).model_copy(update={"stands": stands(archive, run)})
            for run in archive.runs()
        ]
    if as_json:
        print_json(found)
    elif not found:
        console().print("The archive holds no run. warpsmith optimize TASK starts one.")
    else:
        rows = [
            (
                one.run.name,
                f"{one.run.task} {one.run.direction}",
                one.run.device,
                one.stands,
                str(one.evaluations),
                score_text(one.best.score, one.best.unproven) if one.best else "-",
                f"{one.usd:.2f}",
            )
            for one in found
        ]
        print_table(("run", "task", "device", "state", "evaluations", "best", "US dollars"), rows)
    return 0
