"""Files that others publish: kernels by task and direction, records as JSON or JSON lines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from warpsmith.app.kernel import read_kernel
from warpsmith.base import RECORDS_BYTES, UsageError, read_text
from warpsmith.records import Candidate, Direction, Record

RECORDS = (".json", ".jsonl")
RESULTS = Path("docs", "results")
DEPTH = 2  # of kernels/TASK/DIRECTION.cu below the folder that has RESULTS too
RECORD = "A record is what warpsmith eval --json prints."


def read_records(path: Path) -> list[Record]:
    """The records of a file, one or a line each; what is none is refused with its line."""
    found = []
    for number, one in read_lines(path):
        if isinstance(one, str):
            raise UsageError(f"{path}:{number}: no record: {one}. {RECORD}")
        found.append(one)
    return found


def read_lines(path: Path) -> list[tuple[int, Record | str]]:
    """What each line of a file holds, a record or what it says instead; a file without any record is refused."""
    text = read_text(path, RECORDS_BYTES)
    whole = Record.read(text)
    if isinstance(whole, Record):
        return [(1, whole)]
    found = list(each_said(text.split("\n")))
    if not any(isinstance(one, Record) for _, one in found):
        first = f"{path}:{found[0][0]}: no record: {found[0][1]}." if found else f"{path} holds no record."
        raise UsageError(f"{first} {RECORD}")
    return found


def each_said(lines: Sequence[str]) -> Iterator[tuple[int, Record | str]]:
    """The same as `each_record`, of results: what eval-batch wrote in a record's place is what a line says."""
    for number, one in each_record(lines):
        yield number, one if isinstance(one, Record) else refused(lines[number - 1]) or one


def refused(line: str) -> str:
    """What eval-batch wrote in a record's place; empty where it is not from there."""
    from warpsmith.evaluation import BadLine

    found = BadLine.read(line)
    return found.error if isinstance(found, BadLine) else ""


def each_record(lines: Iterable[str | bytes]) -> Iterator[tuple[int, Record | str]]:
    """What each line holds, by its number: a record or what is wrong with it. An empty line holds nothing."""
    return ((number, Record.read(line)) for number, line in enumerate(lines, 1) if line.strip())


def results_for(path: Path, named: Path | None) -> Path | None:
    """Where records of a kernel lie: the named folder, or docs/results beside the folder of kernels."""
    if named is not None:
        if not named.is_dir():
            raise UsageError(f"Folder {named} does not exist. --against names one that holds records.")
        return named
    above = path.parents if len(path.parents) > DEPTH else path.absolute().parents
    usual = above[DEPTH] / RESULTS if len(above) > DEPTH else None
    return usual if usual and usual.is_dir() else None


def records_below(folder: Path) -> tuple[Record, ...]:
    """Every record of a folder, in the order of its files. What is no record stands there for another reader."""
    paths = sorted(one for suffix in RECORDS for one in folder.rglob(f"*{suffix}"))
    lines = (line for path in paths for line in _lines(path))
    return tuple(one for _, one in each_record(lines) if isinstance(one, Record))


def _lines(path: Path) -> list[str]:
    text = read_text(path, RECORDS_BYTES)
    return text.split("\n") if path.suffix == ".jsonl" else [text]


def kernels_below(folder: Path) -> list[Path]:
    """Every kernel of a folder that is named after its direction, in the order of their names."""
    from warpsmith.languages import suffixes

    kernels = (path for suffix in suffixes() for path in folder.rglob(f"*{suffix}"))
    found = sorted(path for path in kernels if path.stem in tuple(Direction))
    if not found:
        raise UsageError(f"No kernel below {folder}: none is named TASK/forward.cu or TASK/backward.cu.")
    return found


def kernel_candidate(path: Path, task: str, macros: Mapping[str, str]) -> tuple[str, Candidate]:
    """The task as a user would write it and the candidate of a .cu file: the folder names the task when nobody does."""
    from warpsmith.tasks.host import open_task
    from warpsmith.tasks.suite import folders

    target = task or path.absolute().parent.name
    if not path.exists():
        raise UsageError(f"File {path} does not exist.")
    if not task and target not in folders():
        raise UsageError(
            f"{path} lies in no folder named after a task of the suite. Name its task with --task, or lay it out as "
            "softmax/forward.cu."
        )
    with open_task(target) as opened:
        return target, read_kernel(path, opened.describe().name, macros=macros)
