"""A kernel's file as a candidate: its name tells the direction and its text the style, where nobody names them."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from warpsmith.base import find_nearest, read_text
from warpsmith.records import Candidate, Direction, unmark_source

LOG = logging.getLogger(__name__)


def read_kernel(
    path: Path,
    task: str,
    direction: Direction | None = None,
    language: str | None = None,
    macros: Mapping[str, str] | None = None,
) -> Candidate:
    """The candidate of a .cu file."""
    from warpsmith.languages import find_language, language_of

    if language is not None:
        find_language(language)
    source = unmark_source(read_text(path))
    _warn(path, source, macros or {})
    return Candidate(
        task=task,
        direction=direction or Direction.from_stem(path.stem),
        source=source,
        language=language or language_of(source, path.suffix),
        macros=macros or {},
    )


def _warn(path: Path, source: str, macros: Mapping[str, str]) -> None:
    """Log each macro that the text never mentions: a misspelt tunable would change nothing, silently."""
    words = set(re.findall(r"\w+", source))
    for name in macros.keys() - words:
        near = find_nearest(name, re.findall(r"#\s*(?:ifndef|define)\s+(\w+)", source))
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        LOG.warning("warning: %s never mentions the macro %s; its value changes nothing.%s", path, name, hint)
