"""`warpsmith runs`: the searches of the archive."""

from warpsmith import app
from warpsmith.cli._archive import score_text
from warpsmith.cli._options import Json
from warpsmith.cli._output import console, print_json, print_table


def command(as_json: Json = False) -> int:
    """List the runs, the latest first, with state and best kernel."""
    found = app.list_runs()
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
