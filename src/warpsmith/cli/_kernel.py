"""A kernel's file as a candidate: its name tells the direction and its text the style, where nobody names them."""

from collections.abc import Mapping
from pathlib import Path

from warpsmith.base import UsageError, read_text
from warpsmith.records import Candidate, Direction, Language, Signature, Task


def read_kernel(
    path: Path,
    task: str,
    direction: Direction | None = None,
    language: Language | None = None,
    macros: Mapping[str, str] | None = None,
) -> Candidate:
    """The candidate of a .cu file."""
    from warpsmith.compile.source import language_of

    source = read_text(path)
    return Candidate(
        task=task,
        direction=direction or (Direction.BACKWARD if "backward" in path.stem else Direction.FORWARD),
        source=source,
        language=language or language_of(source),
        macros=macros or {},
    )


def signature_for(candidate: Candidate, task: Task) -> Signature:
    """The signature that a candidate is held to; a direction that the task lacks is refused."""
    if candidate.direction not in task.directions:
        raise UsageError(
            f"Task {task.name} has no {candidate.direction} direction; it has {', '.join(task.directions)}."
        )
    return task.signature(candidate.direction)
