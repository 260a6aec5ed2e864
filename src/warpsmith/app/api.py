"""The search from Python: `warpsmith.optimize(task)` does what `warpsmith optimize TASK` does, and prints nothing."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from warpsmith.app.wishes import Wishes
from warpsmith.records import Direction, Run
from warpsmith.search import Limits, RunView, Shape


def optimize(
    task: str,
    direction: Direction | str = Direction.FORWARD,
    *,
    device: str = "auto",
    models: str = "",
    generations: int = Limits.generations,
    proposals: int = Shape.proposals,
    evaluate: int = Shape.evaluate,
    budget_usd: float | None = None,
    budget_minutes: float | None = None,
    run: str = "",
    start: Path | None = None,
    record: Path | None = None,
    replay: Path | None = None,
    watch: Callable[[RunView], None] | None = None,
) -> Run:
    """Search for a faster kernel; the run that comes back names what the archive holds of it.

    `Archive.open().best(run.name)` is the best kernel with its record. `watch` is called with each view of the run.
    """
    wishes = Wishes.from_fields(
        target=task,
        direction=direction,
        device=device,
        models=models,
        generations=generations,
        proposals=proposals,
        evaluate=evaluate,
        budget_usd=budget_usd,
        budget_minutes=budget_minutes,
        run=run,
        start=start,
        record=record,
        replay=replay,
    )
    return _searched(wishes, watch or (lambda view: None))


def resume(run: str, watch: Callable[[RunView], None] | None = None) -> Run:
    """Go on with a run that was stopped or killed."""
    return _searched(Wishes(target="", run=run, resume=True), watch or (lambda view: None))


def _searched(wishes: Wishes, watch: Callable[[RunView], None]) -> Run:
    from warpsmith.app.search import finish, open_session
    from warpsmith.archive import Archive

    with Archive.open() as archive, ExitStack() as until:
        session = open_session(archive, wishes, watch, until)
        ending = session.search.run()
        if not ending.interrupted:
            finish(session)
        return archive.run(session.run.name)
