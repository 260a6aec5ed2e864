"""`warpsmith audit` on a corpus of one's own."""

import json
from pathlib import Path

import pytest

from warpsmith.app.audits import shipped_corpus
from warpsmith.cli._main import run

DEEDS = (Path(__file__).parents[1] / "evaluation" / "stages" / "deeds.cu").read_text()
HEADER = "// task: max_pool\n// direction: forward\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    attack = "// attack: crash\n// caught: check crash\n"
    (tmp_path / "crash.cu").write_text(f"{attack}{HEADER}#define DEED 1\n{DEEDS}")
    (tmp_path / "honest.cu").write_text(f"// control: plain style\n{HEADER}#define DEED 0\n{DEEDS}")
    (tmp_path / "on_a_gpu.cu").write_text(f"// attack: hints\n// device: cuda\n{HEADER}#define DEED 0\n{DEEDS}")
    return tmp_path


def test_rates_are_printed_with_their_denominators(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(corpus), "--device", "vgpu", "--jobs", "2", "--without", "link,static"]) == 0
    shown = capsys.readouterr().out
    assert "check crash" in shown and "as expected" in shown
    assert "not run: on_a_gpu.cu needs --device cuda" in shown
    assert "attacks that succeeded: 0 of 1; false alarms: 0 of 1" in shown


def test_both_rates_come_from_one_run(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.jsonl"
    asked = ["audit", str(corpus), "--device", "vgpu", "--jobs", "2", "--also-without", "static,link"]
    assert run([*asked, "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("check crash") == 1, "neither the text nor the symbols stopped it: once is enough"
    assert "\nattacks that succeeded: 0 of 1; false alarms: 0 of 1" in shown
    assert "without link, static: attacks that succeeded: 0 of 1; false alarms: 0 of 1" in shown
    assert len({json.loads(line)["key"] for line in out.read_text().splitlines()}) == 4
    assert run([*asked, "--out", str(out), "--json"]) == 0
    assert [len(one["outcomes"]) for one in json.loads(capsys.readouterr().out)] == [2, 2]
    assert len(out.read_text().splitlines()) == 4, "nothing was tried, and nothing is written twice"


def test_an_attack_that_gets_through_is_exit_code_1(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (corpus / "crash.cu").write_text((corpus / "honest.cu").read_text().replace("// control", "// attack"))
    assert run(["audit", str(corpus), "--device", "vgpu", "--jobs", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["wrong"] for one in found["outcomes"]] == [True, False]
    assert [one["path"].rpartition("/")[2] for one in found["skipped"]] == ["on_a_gpu.cu"]


def test_what_cannot_be_left_out_is_refused(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", str(corpus), "--without", "seccomp"]) == 2
    assert "Defence seccomp does not exist" in capsys.readouterr().err


def test_the_corpus_of_the_checkout_is_the_usual_one() -> None:
    assert [path.name for path in shipped_corpus()] == ["exploits", "honest"]
