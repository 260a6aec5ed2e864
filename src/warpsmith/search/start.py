"""The kernel that a search starts from: the user's, else the task's seed, else none."""

from pathlib import Path

from warpsmith.base import UsageError, read_text
from warpsmith.languages import language_of, suffixes
from warpsmith.records import Candidate, Direction
from warpsmith.tasks.formats import find


def first_candidate(target: str, direction: Direction, given: Path | None = None) -> Candidate | None:
    """The candidate to begin with; None when a model has to write it."""
    path = given or _seed(target, direction)
    if path is None:
        return None
    source = read_text(path)
    if not source.strip():
        raise UsageError(f"Kernel {path} is empty.")
    origin = "user" if given else "seed"
    return Candidate(
        task=target, direction=direction, source=source, language=language_of(source, path.suffix), origin=origin
    )


def _seed(target: str, direction: Direction) -> Path | None:
    """Return the seed kernel of a task, in the first language that has one."""
    paths = (find(target).folder / f"seed_{direction}{suffix}" for suffix in suffixes())
    return next((path for path in paths if path.is_file()), None)
