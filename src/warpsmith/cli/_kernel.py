"""A kernel's file as a candidate: its name tells the direction and its text the style, where nobody names them."""

from collections.abc import Mapping
from pathlib import Path

from warpsmith.base import read_text
from warpsmith.records import Candidate, Direction, Language


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
