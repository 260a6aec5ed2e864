"""The leaderboard over an archive and over folders of records."""

from pathlib import Path

import pytest
from made import measured, record, saved

from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.report import html, load_folder, markdown, suite, suite_document


def test_rows_have_speedups_against_each_mode() -> None:
    with Archive.open("sqlite://") as archive:
        measured(archive)
        saved(archive)
        page = suite(archive, "the archive", ["softmax", "rope"])
    rows = {(row.task, row.direction): row for row in page.rows}
    assert [(row.task, row.direction) for row in page.rows][:3] == [
        ("layernorm", "forward"),
        ("rope", "forward"),
        ("rope", "backward"),
    ]
    best = rows[("softmax", "forward")]
    assert best.eager == pytest.approx(2.5) and best.compiled == pytest.approx(2.0) and best.best == pytest.approx(2.0)
    assert best.roofline == pytest.approx(0.5) and best.date is not None and best.run == "measured"
    assert rows[("rope", "backward")].kind == "none"


def test_a_modelled_row_has_no_speedup() -> None:
    with Archive.open("sqlite://") as archive:
        saved(archive)
        page = suite(archive, "the archive")
    (row,) = page.rows
    assert (
        row.kind == "modelled"
        and row.best is row.eager is row.compiled is None
        and row.us == pytest.approx(129.1, 0.01)
    )
    made = markdown(suite_document(page))
    assert "| – | – | – | 129.1 µs |" in made and "claims no speedup" in made
    assert "129.1 µs" in html(suite_document(page))


def test_a_folder_of_records_is_a_leaderboard(tmp_path: Path) -> None:
    lines = [record("slow", 24.0).text(), '{"error": "no kernel"}', record("fast", 12.0).text()]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "one.json").write_text(record("one", 16.0).text())
    with Archive.open("sqlite://") as archive:
        left_out = load_folder(archive, tmp_path)
        page = suite(archive, tmp_path.name, (), left_out)
    assert [row.best for row in page.rows] == [pytest.approx(2.0)]
    assert page.left_out == ("r.jsonl: 1 of 3 lines hold no record and were passed over.",)
    assert "passed over" in markdown(suite_document(page))


def test_a_folder_without_records_is_usage(tmp_path: Path) -> None:
    with Archive.open("sqlite://") as archive:
        with pytest.raises(UsageError, match=r"no \.jsonl and no \.json"):
            load_folder(archive, tmp_path)
        with pytest.raises(UsageError, match="does not exist"):
            load_folder(archive, tmp_path / "nowhere")
