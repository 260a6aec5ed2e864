"""The example of README, docs/reading.md and docs/failing.md prints what these pages show."""

import re
from pathlib import Path

import pytest

from warpsmith.cli._main import run
from warpsmith.records import Record

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "rmsnorm.cu"
PAGES = [ROOT / "README.md", ROOT / "docs" / "reading.md", ROOT / "docs" / "failing.md"]
FINDING = re.compile(r"kernel\.cu:\d+: \w+: [^(\n]*\([\d,]+\) of block \([\d,]+\)[a-z ]*")


@pytest.fixture
def record(work_folder: Path, archive_url: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """The file that the first command of docs/failing.md writes."""
    assert run(["eval", "llama_rmsnorm", str(EXAMPLE), "--device", "vgpu", "--json"]) == 1
    path = work_folder / "record.json"
    path.write_text(capsys.readouterr().out)
    return path


def test_the_example_is_refused_for_the_race_that_the_pages_show(record: Path) -> None:
    found = Record.read(record.read_text())
    assert isinstance(found, Record) and found.ended is not None and found.ended.reason == "findings"
    first = FINDING.match(found.ended.detail)
    assert first is not None and first[0].startswith("kernel.cu:8: race: reads shared memory")
    for page in PAGES:
        assert first[0].strip() in page.read_text(), page.name


def test_the_same_calls_fail_again(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["regrade", record.name, "--same-seed", "--device", "vgpu"]) == 0
    shown = capsys.readouterr().out
    answer = "AGREES  record.json: llama_rmsnorm forward, then fail, now fail"
    assert answer in shown and answer in (ROOT / "docs" / "failing.md").read_text()


def test_one_case_alone_shows_the_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run-virtual", str(EXAMPLE), "--task", "llama_rmsnorm", "--case", "smoke-float32"]) == 1
    shown, page = capsys.readouterr().out, (ROOT / "docs" / "failing.md").read_text()
    rows = re.findall(r"^ +(race|uninitialized) +(kernel\.cu:\d) +rmsnorm +(\d+) ", shown, re.MULTILINE)
    assert len(rows) == 3
    assert rows == re.findall(r"^ +(race|uninitialized) +(kernel\.cu:\d) +rmsnorm +(\d+) ", page, re.MULTILINE)


@pytest.mark.usefixtures("record")
def test_the_script_makes_the_tensors_of_the_failing_call(capsys: pytest.CaptureFixture[str]) -> None:
    script = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "failing.md").read_text(), re.DOTALL)
    exec("".join(script), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("rows = ") and lines[1].startswith("Tensor torch.Size") and "float64" in lines[-1]


def test_the_confinement_page_shows_what_its_program_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "confinement.md").read_text()
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("b'42\\n' None (") and "b'42\\n' None (" in page
    assert second in page
