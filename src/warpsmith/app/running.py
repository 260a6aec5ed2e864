"""Which process is at work on a run: being the one, and seeing whether there is one. Knows nothing of the search."""

import re
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from warpsmith.base import UsageError
from warpsmith.records import NAME, Run, RunState

if TYPE_CHECKING:
    from warpsmith.archive import Archive


def stands(archive: "Archive", run: Run) -> str:
    """How a run stands: it runs while somebody holds it, whatever was said of it last."""
    return str(RunState.RUNNING) if archive.is_held(run.name) else run.stands


def hold(archive: "Archive", name: str, command: str, until: ExitStack) -> None:
    """Be the one that writes a run, before anything of it is read, until the stack closes."""
    if not re.fullmatch(NAME, name):
        raise UsageError(f"Run name {name!r} cannot be a file's name: up to 100 letters, digits, '.', '_' and '-'.")
    until.enter_context(archive.hold(name, f"warpsmith {command}"))


def hold_new(archive: "Archive", name: str, of: str, until: ExitStack) -> str:
    """The name of a new run, held: the one given, else what it is of and the time, numbered where that is taken."""
    if name:
        hold(archive, name, "optimize", until)
        return name
    base = f"{_plain(of)}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    for number in count(1):
        name, trial = f"{base}-{number}" if number > 1 else base, ExitStack()
        with suppress(UsageError), trial:
            hold(archive, name, "optimize", trial)
            if not is_known(archive, name):
                until.enter_context(trial.pop_all())
                break
    return name


def is_known(archive: "Archive", name: str) -> bool:
    """Whether the archive has the run."""
    return name in {run.name for run in archive.runs()}


def _plain(text: str) -> str:
    """The text as part of a run's name."""
    kept = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "_.-" else "-" for letter in text)
    return kept.strip("_.-")[-60:].strip("_.-") or "task"
