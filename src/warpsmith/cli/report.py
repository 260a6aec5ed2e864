"""`warpsmith report`: searches as a page, and the suite's leaderboard."""

from pathlib import Path
from typing import Annotated

import typer

from warpsmith import app
from warpsmith.base import check_writable, write_atomic
from warpsmith.cli._options import Json, Trust
from warpsmith.cli._output import console, print_json
from warpsmith.report import (
    Document,
    ReportPage,
    SuitePage,
    render_html,
    render_markdown,
    report_document,
    suite_document,
)


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="RUN…", help="Runs; the latest by default.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained HTML file.")] = None,
    md: Annotated[Path | None, typer.Option(help="Write markdown.")] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="The leaderboard over the archive, or over folders of records.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Profile each run's best kernel first, and save the profile.")
    ] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Write a report, or print it as markdown if no file is named; exit code 4 if no kernel was right."""
    # Checked first: a profile may take minutes before the page is written.
    for path in filter(None, (html, md)):
        check_writable(path)
    if suite:
        board = app.leaderboard(names or ())
        _put(board, suite_document(board), html, md, as_json)
        return 0 if any(row.kind != "none" for row in board.rows) else 4
    page = app.report(names or (), profile, trust)
    _put(page, report_document(page), html, md, as_json)
    return 0 if any(one.best for one in page.runs) else 4


def _put(page: ReportPage | SuitePage, made: Document, html: Path | None, md: Path | None, as_json: bool) -> None:
    """Write the named files, or print the page."""
    written = [(path, view) for path, view in ((html, render_html), (md, render_markdown)) if path is not None]
    for path, view in written:
        write_atomic(path, view(made))
        path.chmod(0o644)  # reports are handed on; `write_atomic` makes private files
        if not as_json:
            console().print(str(path.absolute()))
    if as_json:
        print_json(page)
    elif not written:
        console().print(render_markdown(made))
