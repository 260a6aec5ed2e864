"""Versions of tasks: hashes of the files that define them, taken by the evaluator process."""

from collections.abc import Sequence
from pathlib import Path

from warpsmith.base import digest, digest_files, read_file
from warpsmith.records import Origin
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget
from warpsmith.tasks.inputs import ExampleShape

KBENCH_FILES = ("func_forward.py", "func_backward.py", "config_forward.json", "config_backward.json")
ORIGINS = {
    TaskFormat.SUITE: Origin.SUITE,
    TaskFormat.OWN: Origin.SUITE,
    TaskFormat.ROBUST_KBENCH: Origin.ROBUST_KBENCH,
    TaskFormat.KERNELBENCH: Origin.KERNELBENCH,
    TaskFormat.MODULE: Origin.MODULE,
}


def kbench_files(folder: Path) -> list[Path]:
    """Return the existing files of a robust-kbench folder."""
    return [folder / name for name in KBENCH_FILES if (folder / name).is_file()]


def version_of(target: TaskTarget, shapes: Sequence[ExampleShape] = ()) -> str:
    """Return the version of a foreign task."""
    if target.form is TaskFormat.ROBUST_KBENCH:
        return digest_files(kbench_files(target.path))
    if target.form is TaskFormat.MODULE:
        return digest(read_file(target.path), target.name, *map(str, shapes))
    return digest_files([target.path])
