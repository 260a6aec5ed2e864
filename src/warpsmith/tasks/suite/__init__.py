"""The tasks that come with the package."""

from pathlib import Path

from warpsmith.base import UsageError, find_nearest
from warpsmith.records import Task
from warpsmith.tasks.formats import MANIFEST, OwnProgram, read_task


def root() -> Path:
    """Return the folder of the suite."""
    return Path(__file__).parent


def folders(where: Path | None = None) -> dict[str, Path]:
    """Return task folders by name. Raise UsageError for two of one name."""
    found: dict[str, Path] = {}
    for manifest in sorted((where or root()).glob(f"*/{MANIFEST}")):
        name = read_task(manifest.parent).name if where else manifest.parent.name
        if name in found:
            raise UsageError(f"Two tasks are named '{name}': {found[name]} and {manifest.parent}. Rename one.")
        found[name] = manifest.parent
    return found


def suite() -> tuple[Task, ...]:
    """Return every task of the suite."""
    return tuple(read_task(folder) for folder in folders().values())


def versions() -> dict[str, str]:
    """Return the current version of each suite task by name."""
    return {task.name: task.version for task in suite()}


def suite_folder(name: str) -> Path:
    """Return the folder of a suite task. Raise UsageError with near names."""
    known = folders()
    if name not in known:
        near = find_nearest(name, known)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(known)}."
        raise UsageError(f"Task '{name}' does not exist. {hint} A path to a task also works.")
    return known[name]


def suite_program(name: str) -> OwnProgram:
    """Return a suite task's program; its code is trusted."""
    return OwnProgram(suite_folder(name))
