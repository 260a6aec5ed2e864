"""Prompts and answers as files in a folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from warpsmith.base import UsageError, read_text, shell_line, write_atomic
from warpsmith.records import Model

MANIFEST = "ask.json"
PROMPT, ANSWER = ".prompt.md", ".answer.md"
MOST_BYTES = 1 << 20


class PromptManifest(Model):
    """The run of a folder of prompts, and the names of its questions."""

    run: str
    names: tuple[str, ...]


def write_prompts(folder: Path, run: str, prompts: Mapping[str, str], answers: Mapping[str, str]) -> None:
    """Write prompts and recorded answers, and the manifest last."""
    before = _read_manifest(folder).names if (folder / MANIFEST).exists() else ()
    # Answers to another run's questions would be taken for this run's.
    if before and _read_manifest(folder).run != run:
        raise UsageError(f"{folder} holds questions of run {_read_manifest(folder).run}. Name another --out.")
    for name, text in prompts.items():
        head = f"<!-- Question {name} of run {run}. Write the answer to {name}{ANSWER} in this folder. -->\n\n"
        write_atomic(folder / f"{name}{PROMPT}", head + text)
    for name, text in answers.items():
        write_atomic(folder / f"{name}{ANSWER}", text)
    # Names of earlier questions stay, since their answers may still come.
    names = tuple(dict.fromkeys((*before, *prompts)))
    write_atomic(folder / MANIFEST, PromptManifest(run=run, names=names).text())


def read_answers(folder: Path, run: str) -> Mapping[str, str]:
    """Return the answers in a folder. Raise UsageError for another run's folder."""
    if not folder.is_dir():
        raise UsageError(
            f"Folder {folder} does not exist. `{shell_line('warpsmith', 'ask', run, '--out', folder)}` makes it."
        )
    found = _read_manifest(folder)
    if found.run != run:
        raise UsageError(f"{folder} holds questions of run {found.run}, not of {run}.")
    strays = _find_strays(folder, found.names)
    if strays:
        raise UsageError(f"{folder} holds answers to no question: {', '.join(strays)}.")
    paths = {name: folder / f"{name}{ANSWER}" for name in found.names}
    return {name: read_text(path, MOST_BYTES) for name, path in paths.items() if path.exists()}


def _read_manifest(folder: Path) -> PromptManifest:
    path = folder / MANIFEST
    if not path.exists():
        raise UsageError(f"{folder} has no {MANIFEST}; it is not a folder that `warpsmith ask` wrote.")
    found = PromptManifest.read(read_text(path))
    if isinstance(found, str):
        raise UsageError(f"{path} cannot be read: {found}.")
    return found


def _find_strays(folder: Path, names: Iterable[str]) -> list[str]:
    """Return the files that answer no question, often a misspelt name."""
    known = {f"{name}{ANSWER}" for name in names}
    return sorted(path.name for path in folder.glob(f"*{ANSWER}") if path.name not in known)
