"""Kernel files as candidates."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from warpsmith.base import UsageError, find_nearest, read_text
from warpsmith.languages import find_language, language_of, suffixes
from warpsmith.records import Candidate, Direction, unmark_source
from warpsmith.tasks.formats import find
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import folders

LOG = logging.getLogger(__name__)


def read_kernel(
    path: Path,
    task: str,
    direction: Direction | None = None,
    language: str | None = None,
    macros: Mapping[str, str] | None = None,
) -> Candidate:
    """Return the candidate of a kernel file."""
    if language is not None:
        find_language(language)
    # A kernel that `best --unproven` wrote carries a marked first line, which is not part of the kernel.
    source = unmark_source(read_text(path))
    _warn_of_unused(path, source, macros or {})
    return Candidate(
        task=task,
        direction=direction or Direction.from_stem(path.stem),
        source=source,
        language=language or language_of(source, path.suffix),
        macros=macros or {},
    )


def _warn_of_unused(path: Path, source: str, macros: Mapping[str, str]) -> None:
    """Log each macro that the text does not contain: a misspelt tunable would have no effect."""
    words = set(re.findall(r"\w+", source))
    for name in macros.keys() - words:
        near = find_nearest(name, re.findall(r"#\s*(?:ifndef|define)\s+(\w+)", source))
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        LOG.warning("warning: %s never mentions the macro %s; its value changes nothing.%s", path, name, hint)


def kernels_below(folder: Path) -> list[Path]:
    """Return the kernels of a folder that are named after their direction, sorted. Raise UsageError for none."""
    kernels = (path for suffix in suffixes() for path in folder.rglob(f"*{suffix}"))
    found = sorted(path for path in kernels if path.stem in tuple(Direction))
    if not found:
        raise UsageError(f"No kernel below {folder}: none is named TASK/forward.cu or TASK/backward.cu.")
    return found


def kernel_candidate(path: Path, task: str, macros: Mapping[str, str]) -> tuple[str, Candidate]:
    """Return the task as a user names it, and the candidate of a kernel file.

    Without a task the folder names it. Raise UsageError if it names none.
    """
    # Published kernels lie in TASK/DIRECTION.cu.
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


def first_candidate(target: str, direction: Direction, given: Path | None = None) -> Candidate | None:
    """Return the first kernel of a search: the user's, the task's seed, or None."""
    path = given or _find_seed(target, direction)
    if path is None:
        return None
    source = read_text(path)
    if not source.strip():
        raise UsageError(f"Kernel {path} is empty.")
    origin = "user" if given else "seed"
    return Candidate(
        task=target, direction=direction, source=source, language=language_of(source, path.suffix), origin=origin
    )


def _find_seed(target: str, direction: Direction) -> Path | None:
    """Return the seed kernel of a task, in the first language that has one."""
    paths = (find(target).folder / f"seed_{direction}{suffix}" for suffix in suffixes())
    return next((path for path in paths if path.is_file()), None)
