"""`warpsmith report`: searches as a page that people look at, and the leaderboard of the suite."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.base import UsageError, check_writable, shell_line, write_atomic
from warpsmith.cli._options import Json, Trust
from warpsmith.cli._output import console, print_json

if TYPE_CHECKING:
    from warpsmith.archive import Archive
    from warpsmith.report import Document, ReportPage, SuitePage


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="RUN…", help="Runs; the latest by default.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained HTML file.")] = None,
    md: Annotated[Path | None, typer.Option(help="Write markdown.")] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="The leaderboard over the archive, or over folders of records.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Profile each run's best kernel first, and keep that.")
    ] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> int:
    """Write a report, or print it as markdown when no file is named; exit code 4 when no kernel was right."""
    from warpsmith.archive import Archive
    from warpsmith.report import build_report, report_document, suite_document

    for path in filter(None, (html, md)):
        check_writable(path)
    if suite:
        board = _board(names or [])
        _put(board, suite_document(board), html, md, as_json)
        return 0 if any(row.kind != "none" for row in board.rows) else 4
    with Archive.open() as archive:
        chosen = names or _latest(archive)
        if profile:
            _profile(archive, chosen, trust)
        page = build_report(archive, chosen)
    _put(page, report_document(page), html, md, as_json)
    return 0 if any(one.best for one in page.runs) else 4


def _latest(archive: "Archive") -> list[str]:
    runs = archive.runs()
    if not runs:
        raise UsageError("The archive holds no run. warpsmith optimize TASK starts one.")
    return [runs[0].name]


def _put(page: "ReportPage | SuitePage", made: "Document", html: Path | None, md: Path | None, as_json: bool) -> None:
    """The views that were asked for; the paths of files on stdout, so that a script can go on with them."""
    from warpsmith.report import render_html, render_markdown

    written = [(path, view) for path, view in ((html, render_html), (md, render_markdown)) if path is not None]
    for path, view in written:
        write_atomic(path, view(made))
        path.chmod(0o644)  # a page is made to be handed on
        if not as_json:
            console().print(str(path.absolute()))
    if as_json:
        print_json(page)
    elif not written:
        console().print(render_markdown(made))


def _board(folders: Sequence[str]) -> "SuitePage":
    from warpsmith.archive import Archive
    from warpsmith.report import load_folder, suite_page
    from warpsmith.tasks.suite import versions

    tasks = versions()
    if not folders:
        with Archive.open() as archive:
            return suite_page(archive, "the archive", tasks)
    with Archive.open("sqlite://") as archive:
        left_out = [said for folder in folders for said in load_folder(archive, Path(folder))]
        source = ", ".join(Path(folder).name for folder in folders)
        page = suite_page(archive, source, tasks, left_out, loaded=True)
    return page.model_copy(update={"command": shell_line("warpsmith", "report", "--suite", *folders)})


def _profile(archive: "Archive", names: Sequence[str], trust: bool) -> None:
    """Profile the best kernel of each run where it was evaluated, and keep that beside the run."""
    from warpsmith.cli.profile import profile_record
    from warpsmith.evaluation import settle_device
    from warpsmith.report import PROFILE

    for name in names:
        run, best = archive.run(name), archive.best(name)
        if best is None:
            continue
        modelled = best.record.options.gpu
        facts = profile_record(run.target, best.record, settle_device(run.device), modelled, None, trust)
        archive.note(name, PROFILE, json.loads(facts.text()), name=best.candidate)
