"""Resolution of a user's TASK, and the task's version."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from warpsmith.base import UsageError, digest, digest_files, find_nearest, read_file, read_text
from warpsmith.records import LONGEST_NAME, Origin
from warpsmith.tasks.formats.own import MANIFEST
from warpsmith.tasks.inputs import ExampleShape
from warpsmith.tasks.suite import folders, root, suite_folder

FUNCTION = "func_forward.py"  # what makes a folder a robust-kbench task
KERNELBENCH = (re.compile(r"^class Model\b", re.M), re.compile(r"^def get_inputs\b", re.M))
SHOWN = 200  # characters of a name in a message
KBENCH_FILES = ("func_forward.py", "func_backward.py", "config_forward.json", "config_backward.json")
MOST = 10_000  # files looked at below one folder


class TaskFormat(StrEnum):
    """Format of a task, which decides how it is opened."""

    SUITE = "suite"
    OWN = "own"
    ROBUST_KBENCH = "robust_kbench"
    KERNELBENCH = "kernelbench"
    MODULE = "module"


ORIGINS = {
    TaskFormat.SUITE: Origin.SUITE,
    TaskFormat.OWN: Origin.SUITE,
    TaskFormat.ROBUST_KBENCH: Origin.ROBUST_KBENCH,
    TaskFormat.KERNELBENCH: Origin.KERNELBENCH,
    TaskFormat.MODULE: Origin.MODULE,
}


@dataclass(frozen=True)
class TaskTarget:
    """A task's format, path and name inside a file."""

    form: TaskFormat
    path: Path
    name: str = ""

    @property
    def label(self) -> str:
        """Text that finds the task again."""
        if self.form is TaskFormat.SUITE:
            return self.path.name
        return f"{self.path}:{self.name}" if self.name else str(self.path)

    @property
    def folder(self) -> Path:
        """The folder of the task's code."""
        return self.path if self.path.is_dir() else self.path.parent


def find(text: str) -> TaskTarget:
    """Return a named task. Raise UsageError with near names."""
    _check_name(text)
    try:
        return _find(text)
    except OSError as error:  # a name or a path that no file system takes, or a folder that may not be read
        raise UsageError(f"Task '{text[:SHOWN]}' cannot be opened: {error.strerror}.") from None


def _check_name(text: str) -> None:
    """Raise UsageError for a name that is too long."""
    if len(text) > LONGEST_NAME:
        raise UsageError(f"The task's name has {len(text)} characters; at most {LONGEST_NAME} are read.")


def _find(text: str) -> TaskTarget:
    """Return the task that a text names."""
    # A file with a name comes first: a suite name has no colon.
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py"):
        return _find_in_file(Path(file), name)
    path = Path(text)
    if text in folders():
        if path.is_dir() and next(_tasks_in(path.resolve()), None):  # a folder of a task's kernels is not meant
            raise UsageError(f"'{text}' is a task of the suite and a path here. Write ./{text} for the path.")
        return TaskTarget(TaskFormat.SUITE, suite_folder(text))
    if path.is_dir():
        return _find_folder(path.resolve())
    if path.is_file():
        return _find_file(path.resolve())
    if "/" in text or text.endswith((".py", ".toml")):
        raise UsageError(f"Path '{text}' does not exist.{_near_paths(path)}")
    return TaskTarget(TaskFormat.SUITE, suite_folder(text))


def find_all(text: str) -> tuple[TaskTarget, ...]:
    """Return every task below a folder, or the one task that a text names."""
    _check_name(text)
    path = Path(text)
    try:
        # A name of the suite wins over a folder of the same name, as in `find`.
        if text in folders() or not path.is_dir() or _form(path.resolve()):
            return (find(text),)
        found = tuple(_below(path.resolve()))
    except OSError as error:
        raise UsageError(f"Folder '{text[:SHOWN]}' cannot be searched: {error.strerror}.") from None
    if not found:
        raise UsageError(f"No task below {path.resolve()}. {_describe_forms()}")
    _check_names(found)
    return found


def _find_in_file(path: Path, name: str) -> TaskTarget:
    """Return the target of `file.py:Name`."""
    if not path.is_file():
        raise UsageError(f"File '{path}' does not exist.{_near_paths(path)}")
    if not name.isidentifier():
        raise UsageError(f"'{name}' after {path}: is not a name. Write file.py:Name, a module or a function in it.")
    return TaskTarget(TaskFormat.MODULE, path.resolve(), name)


def _find_folder(path: Path) -> TaskTarget:
    """Return a folder's only task. Raise UsageError otherwise."""
    form = _form(path)
    if form:
        return TaskTarget(form, path)
    inside = [target.label for target in _below(path)]
    if inside:
        shown = ", ".join(inside[:3]) + (", …" if len(inside) > 3 else "")
        raise UsageError(f"Folder {path} holds {len(inside)} tasks; name one: {shown}.")
    raise UsageError(f"No task in {path}. {_describe_forms()}")


def _tasks_in(folder: Path) -> Iterator[TaskTarget]:
    """Yield the tasks in or below a folder."""
    form = _form(folder)
    yield from (TaskTarget(form, folder),) if form else _below(folder)


def _form(folder: Path) -> TaskFormat | None:
    """Return the format of a task folder, or None."""
    if (folder / MANIFEST).is_file():
        return TaskFormat.SUITE if folder.parent == root().resolve() else TaskFormat.OWN
    return TaskFormat.ROBUST_KBENCH if (folder / FUNCTION).is_file() else None


def _find_file(path: Path) -> TaskTarget:
    """Return the task of a file."""
    # The path of a manifest or of func_forward.py means its folder.
    if path.name in (MANIFEST, FUNCTION):
        return _find_folder(path.parent)
    if path.suffix != ".py":
        raise UsageError(f"File {path} is no task. {_describe_forms()}")
    if not _is_kernelbench(path):
        raise UsageError(f"{path}: no class Model with get_inputs(). Write {path.name}:Name for a module or function.")
    return TaskTarget(TaskFormat.KERNELBENCH, path)


def _is_kernelbench(path: Path) -> bool:
    """Whether a file defines `Model` and `get_inputs`."""
    text = read_text(path)
    return all(part.search(text) for part in KERNELBENCH)


def _below(folder: Path) -> Iterator[TaskTarget]:
    """Yield the tasks below a folder, nearest folders first."""
    seen, waiting = 0, [folder]
    while waiting:
        here = waiting.pop(0)
        for path in sorted(here.iterdir(), key=_natural):
            seen += 1
            # A bound on the walk, since a user may name the home folder by mistake.
            if seen > MOST:
                raise UsageError(f"More than {MOST} files below {folder}. Name a smaller folder.")
            if path.name.startswith((".", "__")):
                continue
            if path.is_dir():
                form = _form(path)
                if form:
                    yield TaskTarget(form, path)
                else:
                    waiting.append(path)
            elif path.suffix == ".py" and _is_kernelbench(path):
                yield TaskTarget(TaskFormat.KERNELBENCH, path)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that puts 2 before 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _check_names(found: tuple[TaskTarget, ...]) -> None:
    """Raise UsageError if two tasks have one name."""
    places: dict[str, Path] = {}
    for target in found:
        if target.form is TaskFormat.OWN:
            name = _own_name(target.path)
            if name in places:
                raise UsageError(f"Two tasks are named '{name}': {places[name]} and {target.path}. Rename one.")
            places[name] = target.path


def _own_name(folder: Path) -> str:
    """Return the name in a manifest; an invalid manifest is reported when opened."""
    try:
        return str(tomllib.loads(read_text(folder / MANIFEST)).get("name", folder.name))
    except tomllib.TOMLDecodeError:
        return folder.name


def _near_paths(path: Path) -> str:
    """Return a hint with similar paths."""
    if not path.parent.is_dir():
        return ""
    near = find_nearest(path.name, (other.name for other in path.parent.iterdir()))
    return f" Did you mean {' or '.join(str(path.parent / name) for name in near)}?" if near else ""


def _describe_forms() -> str:
    """Return a sentence that lists a task's forms."""
    return (
        f"A task is a name of the suite, a folder with {MANIFEST} or {FUNCTION}, a file with class Model and "
        "get_inputs(), or file.py:Name."
    )


def kbench_files(folder: Path) -> list[Path]:
    """Return the existing files of a robust-kbench folder."""
    return [folder / name for name in KBENCH_FILES if (folder / name).is_file()]


def version_of(target: TaskTarget, shapes: Sequence[ExampleShape] = ()) -> str:
    """Return the version of a foreign task."""
    if target.form is TaskFormat.ROBUST_KBENCH:
        return digest_files(kbench_files(target.path))
    if target.form is TaskFormat.MODULE:
        # Shapes from the command line are part of the task: other inputs make another task.
        return digest(read_file(target.path), target.name, *map(str, shapes))
    return digest_files([target.path])
