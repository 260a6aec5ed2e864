"""Files that others publish: kernels by task and direction, records as JSON or JSON lines."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import UsageError, read_text
from warpsmith.records import Candidate, Direction, Record

RECORDS = (".json", ".jsonl")
MOST_BYTES = 1 << 30


def read_records(path: Path) -> list[Record]:
    """The records of a file, one or a line each; what is none is refused with its line."""
    text = read_text(path, MOST_BYTES)
    whole = _record(text)
    if isinstance(whole, Record):
        return [whole]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        one = _record(line) if line.strip() else None
        if isinstance(one, str):
            raise UsageError(f"{path}:{number}: no record: {one}. A record is what warpsmith eval --json prints.")
        found += [one] if one else []
    if not found:
        raise UsageError(f"{path} holds no record. A record is what warpsmith eval --json prints.")
    return found


def kernel_candidate(path: Path, task: str, macros: Mapping[str, str]) -> tuple[str, Candidate]:
    """The task as a user would write it and the candidate of a .cu file: the folder names the task when nobody does."""
    from warpsmith.compile.source import language_of
    from warpsmith.tasks.find import open_task
    from warpsmith.tasks.suite import folders

    source = read_text(path)
    target = task or path.absolute().parent.name
    if not task and target not in folders():
        raise UsageError(
            f"{path} lies in no folder named after a task of the suite. Name its task with --task, or lay it out as "
            "softmax/forward.cu."
        )
    direction = Direction.BACKWARD if "backward" in path.stem else Direction.FORWARD
    with open_task(target) as opened:
        name = opened.describe().name
    return target, Candidate(
        task=name, direction=direction, source=source, language=language_of(source), macros=dict(macros)
    )


def _record(text: str) -> Record | str:
    """The record, or what is wrong with it."""
    try:
        return Record.parse(text)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
