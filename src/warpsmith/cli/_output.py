"""Printing: JSON for programs, rich text on a terminal, plain lines elsewhere."""

import functools
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from warpsmith.base import escape_controls

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

GAP = 3  # columns of blanks between two columns of a table


def print_error(kind: str, message: str, code: int, as_json: bool) -> int:
    """Print an error on stderr, or as JSON on stdout, and return the exit code."""
    if as_json:
        # With --json an error is the document on stdout, so that a program parses one stream only.
        text, out = json.dumps({"error": {"kind": kind, "message": message, "exit_code": code}}), sys.stdout
    else:
        text, out = f"error: {escape_controls(message)}", sys.stderr
    try:
        print(text, file=out, flush=True)
        sys.stdout.flush()
    except OSError:  # stdout is on a full disk: print on stderr instead, with the same exit code
        give_up_stdout()
        if as_json:
            print(f"error: {escape_controls(message)}", file=sys.stderr)
    return code


def give_up_stdout() -> None:
    """Discard the rest of stdout."""
    # At exit Python flushes stdout once more; /dev/null takes the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def set_encoding() -> None:
    """Write UTF-8 to pipes and files; replace characters that a terminal cannot show."""
    for out in (sys.stdout, sys.stderr):
        if isinstance(out, io.TextIOWrapper):
            # errors="replace": an unencodable character must not end a command after its work is done.
            out.reconfigure(encoding=None if out.isatty() else "utf-8", errors="replace")


def print_json(value: "BaseModel | Sequence[BaseModel] | Any") -> None:
    """Print one JSON document."""

    def plain(part: Any) -> Any:
        if hasattr(part, "model_dump"):
            return json.loads(part.model_dump_json())  # NaN and infinity as strings: JSON has neither
        return [plain(item) for item in part] if isinstance(part, list | tuple) else part

    print(json.dumps(plain(value), indent=1, ensure_ascii=False))


def console(terminal_columns: int | None = None) -> "Console":
    """Return a console with colours on a terminal, and without wrapping elsewhere.

    `terminal_columns` makes a terminal of that width, whatever stdout is.
    """
    # Outside of a terminal, lines must not depend on a width: programs read them.
    plain = not sys.stdout.isatty() and terminal_columns is None
    return _kind_of_console()(
        soft_wrap=plain,
        # Text of candidates and tasks is printed as it is, without markup, emoji or colours of its own.
        highlight=False,
        markup=False,
        emoji=False,
        width=200 if plain else terminal_columns,
        force_terminal=None if terminal_columns is None else True,
    )


@functools.cache
def _kind_of_console() -> "type[Console]":
    """Return a console class that escapes control sequences."""
    from rich.console import Console  # slow to import, and JSON output needs none of it
    from rich.segment import Segment

    class Visible(Console):
        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterable[Segment]":
            # Segments with `control` are rich's own cursor movements.
            for part in super().render(renderable, options):
                yield part if part.control else Segment(escape_controls(part.text), part.style)

    return Visible


def coloured(*parts: str | tuple[str, str]) -> "Text":
    """Return a line of plain and styled parts."""
    from rich.text import Text

    return Text.assemble(*parts)


def print_table(
    columns: Sequence[str], rows: "Iterable[Sequence[str | Text]]", title: str = "", out: "Console | None" = None
) -> None:
    """Print a table; on a terminal too narrow for its words, a line for each cell, so that no name is cut."""
    from rich import box
    from rich.table import Table

    out, cells = out or console(), list(rows)
    # The longest word of a column is the least width that cuts no word.
    words = [[word for cell in column for word in str(cell).split()] for column in zip(columns, *cells, strict=True)]
    least = [max(map(len, found), default=0) for found in words]
    if out.is_terminal and sum(least) + GAP * len(least) > out.width:
        _print_stacked(out, columns, cells, title)
        return
    table = Table(title=title or None, box=box.SIMPLE, pad_edge=False, title_justify="left")
    for name, width in zip(columns, least, strict=True):
        table.add_column(name, min_width=width)
    for row in cells:
        table.add_row(*row)
    out.print(table)


def _print_stacked(out: "Console", columns: Sequence[str], rows: "Iterable[Sequence[str | Text]]", title: str) -> None:
    wide = max(map(len, columns))
    if title:
        out.print(title)
    for row in rows:
        out.print()
        for name, cell in zip(columns, row, strict=True):
            # soft_wrap leaves long lines to the terminal, so that copied text has no added breaks.
            out.print(coloured(f" {name:<{wide}}  "), cell, sep="", soft_wrap=True)
    out.print()
