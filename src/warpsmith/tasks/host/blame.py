"""Whose line raised: an exception of a task's code as one sentence with file, line and cause. Knows no task format."""

import traceback
from pathlib import Path

ADVICE: dict[type[BaseException], str] = {
    RecursionError: "infinite recursion, as far as the interpreter can tell",
    SystemExit: "a task file is imported, so it may not exit",
    ModuleNotFoundError: "a task sees python, the installed packages and its own folder",
}
LONGEST = 600  # characters of a foreign message that are shown


def blamed(error: BaseException, folder: Path, file: Path) -> str:
    """`file:line: Kind: message in function`, at the deepest line that lies in the task's folder, else at its file."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}: not Python: {error.msg}."
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _inside(frame.filename, folder)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}: " if frames else f"{file}: "
    function = f" in {frames[-1].name}" if frames and frames[-1].name != "<module>" else ""
    return f"{where}{_said(error)}{function}.{_advice(error)}"


def _inside(filename: str, folder: Path) -> bool:
    return Path(filename).is_relative_to(folder)


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split())
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return f"{type(error).__name__}: {shown}".rstrip(". :") if shown else type(error).__name__


def _advice(error: BaseException) -> str:
    found = next((text for kind, text in ADVICE.items() if isinstance(error, kind)), "")
    return f" ({found[0].upper()}{found[1:]}.)" if found else ""
