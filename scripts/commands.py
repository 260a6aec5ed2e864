"""Write the options of every command into docs/commands.md, between the lines that mark a table; the prose stays."""

import importlib
import re
from pathlib import Path
from typing import Any

import typer

from warpsmith.cli._commands import COMMANDS

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
TABLE = re.compile(r"<!-- options: ([a-z -]+) -->\n.*?<!-- end -->\n", re.DOTALL)


def commands() -> dict[str, Any]:
    """Every command that can be typed, those of a group among them, as typer sees it."""
    found: dict[str, Any] = {}
    for row in COMMANDS:
        module = importlib.import_module(f"warpsmith.cli.{row.module}")
        app = getattr(module, "group", None)
        if app is None:
            app = typer.Typer(add_completion=False)
            app.command(row.name)(module.command)
        made = typer.main.get_command(app)
        group = getattr(made, "commands", None)
        found |= {f"{row.name} {name}": one for name, one in group.items()} if group else {row.name: made}
    return found


def table(command: Any) -> str:
    """A command's arguments and options, a line each; `--json` is every command's."""
    rows = []
    for one in command.params:
        names = [*one.opts, *one.secondary_opts]
        if "--json" not in names:
            shown = " ".join(f"`{name}`" for name in names) if names[0].startswith("-") else names[0].upper()
            rows.append(f"| {shown} | {one.help or ''} |\n")
    return "".join(["| | |\n|---|---|\n", *rows]) if rows else ""


def filled(text: str) -> str:
    """The page with every table as the commands have it now."""
    known = commands()
    return TABLE.sub(lambda match: f"<!-- options: {match[1]} -->\n{table(known[match[1]])}<!-- end -->\n", text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
