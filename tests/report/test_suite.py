"""The leaderboard over an archive and over folders of records."""

from pathlib import Path

import pytest
from made import WHEN, measured, published, quarantined, record, saved, timed
from pytest import approx

from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.records import MODES, Direction, Group, Record, SpeedComparison
from warpsmith.records.fake import fake_case
from warpsmith.report import SuitePage, load_folder, render_html, render_markdown, suite_document, suite_page
from warpsmith.report.winner import generalization_gap


def test_rows_have_speedups_against_each_mode() -> None:
    with Archive.open("sqlite://") as archive:
        measured(archive)
        saved(archive)
        page = suite_page(archive, "the archive", {"softmax": "", "rope": ""})
    rows = {(row.task, row.direction): row for row in page.rows}
    assert [(row.task, row.direction) for row in page.rows][:3] == [
        ("layernorm", "forward"),
        ("rope", "forward"),
        ("rope", "backward"),
    ]
    best = rows[("softmax", "forward")]
    assert best.against == approx({**dict.fromkeys(MODES, 2.5), "compile": 2.0}) and best.best == approx(2.0)
    assert best.roofline == approx(0.5) and best.date is not None and best.run == "measured"
    assert rows[("rope", "backward")].kind == "none"


def test_a_modelled_row_has_no_speedup() -> None:
    with Archive.open("sqlite://") as archive:
        saved(archive)
        page = suite_page(archive, "the archive")
    (row,) = page.rows
    assert row.kind == "modelled" and row.best is None and not row.against and row.us == approx(129.1, 0.01)
    made = render_markdown(suite_document(page))
    assert "| – | 129.1 µs |" in made and "129.1 µs modelled" in made and "claims no speedup" in made
    assert "129.1 µs" in render_html(suite_document(page))


def test_a_folder_of_records_is_a_leaderboard(tmp_path: Path) -> None:
    lines = [record("slow", 24.0).text(), '{"error": "no kernel"}', record("fast", 12.0).text()]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "one.json").write_text(record("one", 16.0).text())
    with Archive.open("sqlite://") as archive:
        left_out = load_folder(archive, tmp_path)
        page = suite_page(archive, tmp_path.name, left_out=left_out)
    assert [row.best for row in page.rows] == [approx(2.0)]
    assert page.left_out == ("r.jsonl: 1 of 3 lines hold no record and were passed over.",)
    assert "passed over" in render_markdown(suite_document(page))


def test_a_folder_without_records_is_usage(tmp_path: Path) -> None:
    with Archive.open("sqlite://") as archive:
        with pytest.raises(UsageError, match=r"no \.jsonl and no \.json"):
            load_folder(archive, tmp_path)
        with pytest.raises(UsageError, match="does not exist"):
            load_folder(archive, tmp_path / "nowhere")


def board(folder: Path, *records: Record) -> SuitePage:
    """The leaderboard of a results folder that holds these records."""
    (folder / "records.jsonl").write_text("".join(f"{one.text()}\n" for one in records))
    with Archive.open("sqlite://") as archive:
        left_out = load_folder(archive, folder)
        return suite_page(archive, "h200", {"rope": ""}, left_out, loaded=True)


def test_a_row_has_times_limits_checks_and_the_gap(tmp_path: Path) -> None:
    row = board(tmp_path, published("softmax", Direction.FORWARD, 12.0)).rows[-1]
    assert [row.us, row.call_us, row.roofline, row.largest] == approx([24.0, 9.0, 0.5, 0.5])
    assert (row.tier, row.date, row.largest_case) == ("claim", WHEN, "large")
    assert [(one.group, one.cases) for one in row.checks] == [("dev", 1), ("heldout", 1)]
    assert row.gap is not None and row.gap.ratio == approx(0.8) and row.claim is SpeedComparison.FASTER
    assert [case.name for case in row.cases] == ["small", "large", "drawn"] and row.cases[0].call_us == 9.0


@pytest.mark.parametrize("share", [1.0, 0.95])
def test_the_gap_is_that_of_held_out_cases_over_those_that_they_are_like(share: float) -> None:
    record = published("softmax", Direction.FORWARD, 12.0)
    timing = record.timing
    assert timing is not None and generalization_gap(record).ratio == approx(0.8)
    faster = timed(fake_case("large", Group.TIMING, 4096), 40.0, scale=4.0)
    near = timed(fake_case("near_large", Group.HELDOUT, 4000), 40.0 / share, scale=4.0)
    others = [one for one in timing.cases if one.case.name != "large"]
    facts = timing.model_copy(update={"cases": (*others, faster, near)})
    more = record.results[-1].model_copy(update={"facts": facts})
    found = generalization_gap(record.model_copy(update={"results": (*record.results[:-1], more)}))
    assert found.ratio == approx(share) and found.checked == 1


def test_the_headline_says_when_a_mode_of_torch_is_missing(tmp_path: Path) -> None:
    page = board(tmp_path, published("softmax", Direction.FORWARD, 12.0))
    assert "× torch's best mode, the geometric mean of" in render_markdown(suite_document(page))
    few = tuple(row.model_copy(update={"against": {"eager": 2.5}}) for row in page.rows)
    text = render_markdown(suite_document(page.model_copy(update={"rows": few})))
    assert "× the best of the modes of torch that were measured, the geometric mean of" in text
    assert "Not every mode of torch was measured" in text


@pytest.mark.parametrize(("now", "older"), [("1", False), ("2", True)])
def test_a_record_of_an_earlier_version_of_its_task_is_told(now: str, older: bool) -> None:
    with Archive.open("sqlite://") as archive:
        archive.add(None, published("softmax", Direction.FORWARD, 12.0))
        page = suite_page(archive, "the archive", {"softmax": now})
    assert [row.older for row in page.rows] == [older, False]
    assert ("Evaluated before the task was changed" in render_markdown(suite_document(page))) is older


def test_a_record_without_a_date_has_none_in_a_folder_and_the_archive_s_in_an_archive(tmp_path: Path) -> None:
    assert board(tmp_path, record("k", 12.0)).rows[-1].date is None
    with Archive.open("sqlite://") as archive:
        archive.add(None, record("k", 12.0))
        assert suite_page(archive, "the archive").rows[-1].date is not None


def test_the_tables_of_a_results_folder(tmp_path: Path) -> None:
    fast, slow = published("softmax", Direction.FORWARD, 12.0), published("softmax", Direction.BACKWARD, 48.0)
    text = render_markdown(suite_document(board(tmp_path, fast, slow)))
    modes = " | ".join(MODES)
    assert f"| task | pass | best kernel | vs torch's best | {modes} | date |" in text
    speeds = "2.000× (1.960–2.040) faster | 2.5× | 2× | 2.5× | 2.5× | 2.5× | 2026-03-04"
    assert f"| softmax | forward | {fast.candidate.id[:12]} | {speeds} |" in text
    limits = "24 µs | 9 µs | 50% | 50% large | 1 case, 0.25 | 1 case, 0.25 | 1.6× | 0.80"
    assert f"| softmax | forward | {limits} |" in text
    assert "| small | timing | n=64 | float32 | 12 µs (11.88–12.12) | 9 µs | 2.000× (1.960–2.040) faster |" in text
    assert "Torch's best mode is faster: softmax backward." in text and "forward: 2.000× torch's best mode" in text
    assert "Not every mode" not in text and "Measured as a search does" not in text
    assert "tier claim, H200, driver 580.1, torch 2.11.0, 2026-03-04." in text


def test_what_is_less_than_a_claim_is_said(tmp_path: Path) -> None:
    searched = published("softmax", Direction.FORWARD, 12.0, "search")
    doubted = quarantined(published("softmax", Direction.BACKWARD, 12.0))
    page = board(tmp_path, searched, doubted, record("k", 12.0, modes=("eager",)))
    text = render_html(suite_document(page))
    assert "none yet: quarantine at timing (hidden_work)" in text and "1 of 4 directions" in text
    assert "Measured as a search does, against baselines that may be of another hour: softmax forward." in text


def test_modes_that_nobody_measured_are_said(tmp_path: Path) -> None:
    text = render_markdown(suite_document(board(tmp_path, record("k", 12.0, modes=("eager",)))))
    assert "so the best one may be missing: softmax forward." in text
    assert "| vs torch's best | eager | compile | date |" in text
