"""The tasks that come with the package, by name."""

from pathlib import Path

from warpsmith.base import UsageError, find_nearest
from warpsmith.records import Task
from warpsmith.tasks.formats import MANIFEST, OwnProgram, read_task


def root() -> Path:
    """The folder of the suite."""
    return Path(__file__).parent


def folders(where: Path | None = None) -> dict[str, Path]:
    """Task folders below `where` (the suite when not given) by task name; two of one name are refused."""
    found: dict[str, Path] = {}
    for manifest in sorted((where or root()).glob(f"*/{MANIFEST}")):
        name = read_task(manifest.parent).name if where else manifest.parent.name
        if name in found:
            raise UsageError(f"Two tasks are named '{name}': {found[name]} and {manifest.parent}. Rename one.")
        found[name] = manifest.parent
    return found


def suite() -> tuple[Task, ...]:
    """Every task of the suite, described."""
    return tuple(read_task(folder) for folder in folders().values())


def versions() -> dict[str, str]:
    """The version of every task of the suite as it is now, by name."""
    return {task.name: task.version for task in suite()}


def suite_folder(name: str) -> Path:
    """The folder of a suite task; an unknown name is a `UsageError` with the nearest ones."""
    known = folders()
    if name not in known:
        near = find_nearest(name, known)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(known)}."
        raise UsageError(f"Task '{name}' does not exist. {hint} A path to a task also works.")
    return known[name]


def suite_program(name: str) -> OwnProgram:
    """A suite task that can be run; its code is part of the package and trusted."""
    return OwnProgram(suite_folder(name))
