"""Questions and answers as files: NAME.prompt.md, NAME.answer.md beside it, and ask.json that says whose they are."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from warpsmith.base import UsageError, read_text, shell_line, write_atomic
from warpsmith.records import Model

MANIFEST = "ask.json"
PROMPT, ANSWER = ".prompt.md", ".answer.md"
MOST_BYTES = 1 << 20


class Letters(Model):
    """What a folder of questions holds: the run, and the names of the questions."""

    run: str
    names: tuple[str, ...]


def write_letters(folder: Path, run: str, prompts: Mapping[str, str], answers: Mapping[str, str]) -> None:
    """The questions and what is answered as files; the manifest comes last, so that a folder with one is whole."""
    before = _manifest(folder).names if (folder / MANIFEST).exists() else ()
    if before and _manifest(folder).run != run:
        raise UsageError(f"{folder} holds questions of run {_manifest(folder).run}. Name another --out.")
    for name, text in prompts.items():
        head = f"<!-- Question {name} of run {run}. Write the answer to {name}{ANSWER} in this folder. -->\n\n"
        write_atomic(folder / f"{name}{PROMPT}", head + text)
    for name, text in answers.items():
        write_atomic(folder / f"{name}{ANSWER}", text)
    names = tuple(dict.fromkeys((*before, *prompts)))
    write_atomic(folder / MANIFEST, Letters(run=run, names=names).text())


def read_letters(folder: Path, run: str) -> Mapping[str, str]:
    """The answers that are there, by the names of their questions."""
    if not folder.is_dir():
        raise UsageError(
            f"Folder {folder} does not exist. `{shell_line('warpsmith', 'ask', run, '--out', folder)}` makes it."
        )
    found = _manifest(folder)
    if found.run != run:
        raise UsageError(f"{folder} holds questions of run {found.run}, not of {run}.")
    strays = _strays(folder, found.names)
    if strays:
        raise UsageError(f"{folder} holds answers to no question: {', '.join(strays)}.")
    paths = {name: folder / f"{name}{ANSWER}" for name in found.names}
    return {name: read_text(path, MOST_BYTES) for name, path in paths.items() if path.exists()}


def _manifest(folder: Path) -> Letters:
    path = folder / MANIFEST
    if not path.exists():
        raise UsageError(f"{folder} has no {MANIFEST}; it is not a folder that `warpsmith ask` wrote.")
    found = Letters.read(read_text(path))
    if isinstance(found, str):
        raise UsageError(f"{path} cannot be read: {found}.")
    return found


def _strays(folder: Path, names: Iterable[str]) -> list[str]:
    known = {f"{name}{ANSWER}" for name in names}
    return sorted(path.name for path in folder.glob(f"*{ANSWER}") if path.name not in known)
