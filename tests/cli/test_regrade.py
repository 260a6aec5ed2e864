"""`warpsmith regrade` on records and kernels, with an instant evaluator and once with the real one."""

import json
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from warpsmith.archive import Archive
from warpsmith.cli._main import run
from warpsmith.evolve.fake import fake_record
from warpsmith.records import Candidate, Direction, Reason, Record

SUITE = Path(warpsmith.__file__).parent / "suite"
SEED = SUITE / "swiglu" / "seed_forward.cu"
ASKED: list[tuple[Candidate, Any, int | None]] = []


def kernel(source: str = "fast") -> Candidate:
    return Candidate(task="swiglu", direction=Direction.FORWARD, source=source)


@pytest.fixture
def evaluator(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluator that passes what says `fast`, in 4 µs, and notes what it was asked."""
    ASKED.clear()

    def judged(candidate: Candidate, choices: Any, seed: int | None = None) -> Record:
        ASKED.append((candidate, choices, seed))
        return fake_record(candidate, 4.0 if "fast" in candidate.source else Reason.WRONG_VALUE)

    monkeypatch.setattr("warpsmith.bench.grade", judged)


@pytest.mark.usefixtures("evaluator")
def test_records_that_agree(tmp_path: Path, archive_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [fake_record(kernel(), 4.1), fake_record(kernel("slow"), Reason.WRONG_VALUE)]
    (tmp_path / "r.jsonl").write_text("\n".join(line.text() for line in lines) + "\n")
    assert run(["regrade", str(tmp_path / "r.jsonl"), "--device", "vgpu"]) == 0
    shown = capsys.readouterr().out
    assert "AGREES  " in shown and "modelled times 0.976 of then" in shown and "r.jsonl:2" in shown
    with Archive.open(archive_url) as archive:
        assert archive.count() == 2


@pytest.mark.usefixtures("evaluator")
def test_a_record_that_promised_too_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(fake_record(kernel(), 2.0).text())
    words = ["regrade", str(tmp_path / "r.json"), "--device", "vgpu", "--no-archive"]
    assert run([*words, "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert one["answer"] == "disagrees" and one["times"] == {"kind": "modelled", "ratio": 2.0, "cases": 1}
    assert run([*words, "--within", "1.5"]) == 0


@pytest.mark.usefixtures("evaluator")
def test_a_tree_of_kernels_with_and_without_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "kernels" / "swiglu"
    folder.mkdir(parents=True)
    (folder / "forward.cu").write_text("fast")
    (folder / "forward.json").write_text(fake_record(kernel(), 4.0).text())
    (folder / "backward.cu").write_text("wrong")
    assert run(["regrade", str(tmp_path / "kernels"), "--device", "vgpu"]) == 1
    shown = capsys.readouterr().out
    assert "DISAGREES  " in shown and "published without a record" in shown and "times 1.000 of then" in shown
    assert {(one.task, one.direction) for one, _, _ in ASKED} == {("swiglu", "forward"), ("swiglu", "backward")}


@pytest.mark.usefixtures("evaluator")
def test_the_same_seed_and_the_same_choices(tmp_path: Path) -> None:
    record = fake_record(kernel(), 4.0)
    options = record.options.model_copy(update={"device": "vgpu", "seeds": (7,), "extra": {"gpu": "A100"}})
    (tmp_path / "r.json").write_text(record.model_copy(update={"options": options}).text())
    words = ["regrade", str(tmp_path / "r.json"), "--device", "vgpu"]
    assert run(words) == run([*words, "--same-seed"]) == 0
    assert [seed for _, _, seed in ASKED] == [None, 7]
    assert ASKED[0][1].gpu == "A100"


@pytest.mark.usefixtures("evaluator")
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("r.json", "{}", "no record"),
        ("r.jsonl", "\n", "holds no record"),
        ("k.cu", "fast", "Name its task with --task"),
        ("swiglu/forward.cu", "other", "record of another kernel"),
    ],
)
def test_what_cannot_be_regraded_is_said(
    name: str, text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    if path.parent.name == "swiglu":
        path.with_suffix(".json").write_text(fake_record(kernel(), 4.0).text())
    assert run(["regrade", str(path), "--device", "vgpu"]) == 2
    assert complaint in capsys.readouterr().err


def test_a_folder_without_kernels_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["regrade", str(tmp_path)]) == 2
    assert "No kernel (.cu) and no record" in capsys.readouterr().err


def test_a_seed_agrees_with_itself_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "vgpu", "--no-archive", "--json"]
    assert run(["eval", "swiglu", str(SEED), *words]) == 0
    (tmp_path / "r.json").write_text(capsys.readouterr().out)
    assert run(["regrade", str(tmp_path / "r.json"), *words]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (
        one["answer"] == "agrees"
        and one["times"]["kind"] == "modelled"
        and one["times"]["ratio"] == pytest.approx(1.0, abs=0.02)
    )
    assert one["record"]["options"]["seeds"] != json.loads((tmp_path / "r.json").read_text())["options"]["seeds"]
