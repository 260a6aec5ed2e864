"""The table of languages; a new language is a folder and a line here."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from warpsmith.base import UsageError, find_nearest
from warpsmith.languages import plain_cuda, torch_cuda
from warpsmith.languages.nvcc import Compiled, CompileOptions
from warpsmith.languages.spec import LanguageSpec
from warpsmith.records import Candidate, Direction, Signature, Task

# In the order in which a source is recognized; the first recognizes whatever no other does.
_LANGUAGES: dict[str, LanguageSpec] = {one.key: one for one in (torch_cuda.LANGUAGE, plain_cuda.LANGUAGE)}


def languages() -> Mapping[str, LanguageSpec]:
    """Return all languages by key."""
    return _LANGUAGES


def find_language(key: str) -> LanguageSpec:
    """Return a language. Raise UsageError for an unknown key."""
    if key not in _LANGUAGES:
        near = find_nearest(key, _LANGUAGES)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(_LANGUAGES)}."
        raise UsageError(f"Language {key!r} does not exist. {hint}")
    return _LANGUAGES[key]


def language_of(source: str, suffix: str = "") -> str:
    """Return the key of a source's language, from its text and file suffix."""
    fitting = [one for one in _LANGUAGES.values() if suffix in ("", one.suffix)] or list(_LANGUAGES.values())
    # The first language recognizes whatever the others do not, so it is tried last.
    return next((one.key for one in fitting[::-1] if one.recognizes(source)), fitting[0].key)


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of kernel files."""
    return tuple(dict.fromkeys(one.suffix for one in _LANGUAGES.values()))


def compile_candidate(
    candidate: Candidate, signature: Signature | None = None, options: CompileOptions | None = None
) -> Compiled:
    """Compile a candidate with the compiler of its language."""
    return find_language(candidate.language).compiler.compile(candidate, signature, options)


def skeleton(task: Task, direction: Direction, key: str = torch_cuda.LANGUAGE.key) -> str:
    """Return a file with a task's exact signature that compiles unchanged."""
    return find_language(key).skeleton(task, direction)


@contextmanager
def add_language(spec: LanguageSpec) -> Iterator[None]:
    """Add a language until the block ends."""
    if spec.key in _LANGUAGES:
        raise UsageError(f"Language {spec.key!r} exists already.")
    _LANGUAGES[spec.key] = spec
    try:
        yield
    finally:
        del _LANGUAGES[spec.key]
