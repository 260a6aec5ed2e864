"""How commands print: JSON for programs, rich text on a terminal, plain lines elsewhere."""

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.text import Text


def print_error(kind: str, message: str, code: int, as_json: bool) -> int:
    """Say what went wrong, on stderr for a person or on stdout as JSON, and give the exit code back."""
    if as_json:
        print(json.dumps({"error": {"kind": kind, "message": message, "exit_code": code}}))
    else:
        print(f"error: {message}", file=sys.stderr)
    return code


def shell_line(*words: object) -> str:
    """Words as a line that a shell takes apart into the same words: what is printed to be run next."""
    return shlex.join(map(str, words))


def print_json(value: "BaseModel | Sequence[BaseModel] | Any") -> None:
    """One JSON document on stdout."""

    def plain(part: Any) -> Any:
        if hasattr(part, "model_dump"):
            return json.loads(part.model_dump_json())  # NaN and infinity as strings: JSON has neither
        return [plain(item) for item in part] if isinstance(part, list | tuple) else part

    print(json.dumps(plain(value), indent=1, ensure_ascii=False))


def console() -> "Console":
    """A rich console: colours on a terminal, none elsewhere, no wrapping of piped lines; brackets are what they are."""
    from rich.console import Console  # slow to import, and JSON output needs none of it

    plain = not sys.stdout.isatty()
    return Console(soft_wrap=plain, highlight=False, markup=False, width=None if not plain else 200)


def coloured(*parts: str | tuple[str, str]) -> "Text":
    """A line of plain parts and of parts with a style."""
    from rich.text import Text

    return Text.assemble(*parts)


def print_table(columns: Sequence[str], rows: "Iterable[Sequence[str | Text]]", title: str = "") -> None:
    """A table on a terminal; tab-free aligned columns elsewhere."""
    from rich import box
    from rich.table import Table

    table = Table(*columns, title=title or None, box=box.SIMPLE, pad_edge=False, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console().print(table)
