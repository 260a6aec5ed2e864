"""`warpsmith report`: files, stdout, JSON, the leaderboard, and exit codes."""

import json
from pathlib import Path

import pytest

from warpsmith.archive import Archive, Run
from warpsmith.cli._main import run
from warpsmith.evaluation import EvaluationConfig
from warpsmith.records import (
    Ceilings,
    Direction,
    ProfileFacts,
    ProfileSource,
    Record,
)
from warpsmith.records.fake import fake_candidate, fake_timing, timed_record
from warpsmith.report import ReportPage, SuitePage


def record(source: str, us: float) -> Record:
    """A kernel with a modelled time."""
    return timed_record(fake_candidate(source), fake_timing(us))


@pytest.fixture
def filled(archive_url: str) -> None:
    """A run of two kernels."""
    with Archive.open(archive_url) as archive:
        archive.start(Run(name="mine", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu"))
        archive.add("mine", record("slow", 9.0), operator="seed")
        archive.add("mine", record("fast", 3.0), operator="tune")


@pytest.mark.usefixtures("filled")
def test_files_are_written_and_their_paths_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, text = tmp_path / "out" / "r.html", tmp_path / "r.md"
    assert run(["report", "mine", "--html", str(page), "--md", str(text)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(page), str(text)]
    assert page.read_text().startswith("<!doctype html>") and "3 µs modelled" in text.read_text()
    assert page.stat().st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("filled")
def test_the_latest_run_is_printed_as_markdown_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report"]) == 0
    shown = capsys.readouterr().out
    assert "# warpsmith: mine" in shown and "3× the speed of the kernel it began with" in shown


@pytest.mark.usefixtures("filled")
def test_json_can_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "mine", "--json"]) == 0
    page = ReportPage.parse(capsys.readouterr().out)
    assert page.runs[0].headline.value == pytest.approx(3.0) and page.runs[0].evaluations == 2


@pytest.mark.usefixtures("filled")
def test_a_profile_is_taken_once_and_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, str, str]] = []

    def profiled(target: str, found: Record, config: EvaluationConfig) -> ProfileFacts:
        asked.append((target, found.candidate.source, config.device))
        ceilings = Ceilings(
            gpu="H200", measured=False, read_bytes_per_s=4e12, write_bytes_per_s=4e12, copy_bytes_per_s=4e12
        )
        return ProfileFacts(source=ProfileSource.VGPU, gpu="H200", case="a", ceilings=ceilings)

    monkeypatch.setattr("warpsmith.app.reports.profile_record", profiled)
    assert run(["report", "mine", "--profile", "--json"]) == 0
    assert asked == [("softmax", "fast", "vgpu")]
    capsys.readouterr()
    assert run(["report", "mine", "--json"]) == 0
    (page,) = ReportPage.parse(capsys.readouterr().out).runs
    assert len(asked) == 1 and page.profile is not None and page.profile.case == "a"


@pytest.mark.usefixtures("filled")
def test_the_suite_lists_every_task_by_direction(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--suite", "--json"]) == 0
    page = SuitePage.parse(capsys.readouterr().out)
    assert len(page.rows) == 32 and [row.us for row in page.rows if row.kind == "modelled"] == [pytest.approx(3.0)]


def test_the_suite_over_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "r.jsonl").write_text(record("k", 5.0).text() + "\n")
    assert run(["report", "--suite", str(folder), "--html", str(tmp_path / "board.html")]) == 0
    assert "5 µs" in (tmp_path / "board.html").read_text()
    assert run(["report", "--suite", str(folder), "--md", str(folder / "README.md")]) == 0
    made = (folder / "README.md").read_text()
    assert f"warpsmith report --suite {folder}" in made and "#### softmax forward" in made
    assert run(["report", "--suite", str(folder), "--html", str(tmp_path / "board.html")]) == 0
    capsys.readouterr()
    assert run(["report", "--suite", str(tmp_path / "nowhere"), "--json"]) == 2
    assert "does not exist" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_an_empty_archive_says_what_starts_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report"]) == 2
    assert "holds no run. warpsmith optimize TASK starts one." in capsys.readouterr().err
    assert run(["report", "--suite"]) == 4
    assert "0 of 32 directions" in capsys.readouterr().out


def test_a_run_without_a_right_kernel_is_no_verdict(archive_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Archive.open(archive_url) as archive:
        archive.start(Run(name="mine", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu"))
    assert run(["report", "mine"]) == 4
    assert "No kernel was right and timed." in capsys.readouterr().out
