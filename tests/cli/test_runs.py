"""`warpsmith runs`, `show` and `best`, and what `eval` and `eval-batch` keep."""

import json
import sqlite3
from pathlib import Path

import pytest

from warpsmith.archive import Archive, ModelCall, Run, RunState, RunSummary
from warpsmith.cli._main import run
from warpsmith.records import Direction, Reason, Record, Verdict
from warpsmith.records.fake import fake_candidate, fake_timing, timed_record

NAMED = Run(
    name="mine",
    target="softmax",
    task="softmax",
    direction=Direction.FORWARD,
    device="vgpu",
    settings={"generations": "8"},
    command="warpsmith optimize softmax --run mine",
    package="0.1.0",
)


def record(source: str, speedup: float | None, *parents: str, macros: dict[str, str] | None = None) -> Record:
    """A kernel with a measured speedup, or one that was wrong."""
    fails = Reason.WRONG_VALUE if speedup is None else None
    timing = fake_timing(3.0, speedup)
    return timed_record(fake_candidate(source, parents, macros), timing, fails=fails, hardware="cuda:H200")


@pytest.fixture
def filled(archive_url: str) -> Archive:
    """A run with a seed, a wrong kernel and a faster one that came from the seed."""
    seed = record("seed text\n", 0.8)
    with Archive.open(archive_url) as archive:
        archive.start(NAMED)
        archive.add("mine", seed, operator="seed")
        archive.add(
            "mine", record("wrong text\n", None, seed.candidate.id), generation=1, operator="improve", model="m"
        )
        fast = record("fast text\n", 1.5, seed.candidate.id, macros={"BLOCK": "256"})
        archive.add("mine", fast, generation=2, operator="improve", model="m")
        archive.spend("mine", ModelCall(model="m", operator="improve", input_tokens=900, output_tokens=300, usd=0.25))
        archive.finish("mine", RunState.STOPPED, "budget of 0.25 dollars")
    return archive


@pytest.mark.usefixtures("filled")
def test_runs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs"]) == 0
    shown = capsys.readouterr().out
    for word in ("mine", "softmax forward", "stopped: budget of 0.25 dollars", "1.500× (1.470–1.530)", "0.25"):
        assert word in shown
    assert run(["runs", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["run"]["name"] == "mine" and one["evaluations"] == 3 and one["best"]["score"]["value"] == 1.5
    assert one["stands"] == "stopped: budget of 0.25 dollars"


def test_an_empty_archive_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs"]) == 0
    assert "holds no run" in capsys.readouterr().out
    assert run(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.usefixtures("filled")
def test_show_is_the_run_in_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "mine"]) == 0
    shown = capsys.readouterr().out
    for word in ("generations = 8", "wrong_value", "best: 1.500× (1.470–1.530) torch's best, 1 case", "0.2500"):
        assert word in shown
    lines = shown[shown.index("best: ") :].splitlines()
    places = [next(place for place, line in enumerate(lines) if word in line) for word in ("seed", "BLOCK=256")]
    assert places == sorted(places), "the lineage goes from the oldest to the best"
    assert "--resume" in shown and "warpsmith best mine" in shown


def test_a_run_whose_first_kernel_is_wrong_is_not_gone_on_with(
    archive_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive.open(archive_url) as archive:
        archive.start(NAMED)
        archive.add("mine", record("wrong", None))
        archive.finish("mine", RunState.FAILED, "no correct kernel to search from")
    assert run(["show", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "--resume" not in shown and "warpsmith optimize softmax --direction forward --from KERNEL" in shown


@pytest.mark.usefixtures("filled")
def test_show_as_json_can_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "mine", "--json"]) == 0
    found = RunSummary.parse(capsys.readouterr().out)
    assert found.best is not None and found.best.macros == {"BLOCK": "256"}
    assert [kernel.generation for kernel in found.lineage] == [0, 2]
    assert {(one.verdict, one.count) for one in found.outcomes} == {(Verdict.PASS, 2), (Verdict.FAIL, 1)}
    assert found.usd == 0.25 and found.stands == "stopped: budget of 0.25 dollars"


@pytest.mark.usefixtures("filled")
def test_best_writes_the_text_that_was_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernels" / "k.cu"
    assert run(["best", "mine", "--out", str(path)]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == str(path) and path.read_text() == "fast text\n"
    assert second.startswith("1.500×")
    assert third == f"warpsmith eval softmax {path} --direction forward --device vgpu -DBLOCK=256"
    assert run(["best", "mine", "--source"]) == 0
    assert capsys.readouterr().out == "fast text\n"
    assert run(["best", "mine", "--source", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == "" and found["record"]["candidate"]["source"] == "fast text\n"


@pytest.mark.usefixtures("filled")
def test_best_goes_to_the_data_folder_by_default(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["best", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Path(found["path"]) == home / "data" / "runs" / "mine" / "best.cu"
    assert Path(found["path"]).read_text() == found["record"]["candidate"]["source"] == "fast text\n"
    assert found["score"]["kind"] == "measured" and found["command"].startswith("warpsmith eval softmax")


def test_a_run_without_a_right_kernel_has_no_best(archive_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Archive.open(archive_url) as archive:
        archive.start(NAMED)
        archive.add("mine", record("wrong", None))
    assert run(["best", "mine"]) == 4
    assert "no kernel that was right and timed. warpsmith show mine" in capsys.readouterr().err
    assert run(["show", "mine"]) == 0
    assert "No kernel was right and timed yet." in capsys.readouterr().out


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("words", [["best", "mine", "--out"], ["report", "mine", "--html"]])
def test_a_folder_is_no_file_to_write(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*words, str(tmp_path)]) == 2
    assert f"{tmp_path} cannot be written: Is a directory" in capsys.readouterr().err


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("words", [["show", "mien"], ["best", "mien"]])
def test_a_run_that_is_not_there_is_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert "Run mien does not exist. Did you mean mine?" in capsys.readouterr().err


def test_a_broken_archive_is_the_machine_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter").write_text("dear archive, this is no database at all, sincerely\n" * 10)
    monkeypatch.setenv("WARPSMITH_ARCHIVE", f"sqlite:///{tmp_path / 'letter'}")
    assert run(["runs", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "archive"


KERNEL = "not CUDA at all\n"


def test_eval_keeps_its_record_unless_told_not_to(
    archive_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text(KERNEL)
    assert run(["eval", "swiglu", str(kernel), "--device", "vgpu", "--no-archive"]) == 1
    with Archive.open(archive_url) as archive:
        assert archive.count() == 0
        capsys.readouterr()
        assert run(["eval", "swiglu", str(kernel), "--device", "vgpu", "--json"]) == 1
        (entry,) = archive.records("")
        assert entry.record == Record.parse(capsys.readouterr().out) and entry.verdict is Verdict.FAIL


def test_an_archive_that_is_locked_does_not_cost_the_verdict(
    archive_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text(KERNEL)
    quick = Archive.open
    monkeypatch.setattr(Archive, "open", classmethod(lambda cls, url=None: quick(url, wait_s=0.1)))
    Archive.open(archive_url).close()
    holder = sqlite3.connect(archive_url.removeprefix("sqlite:///"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert run(["eval", "swiglu", str(kernel), "--device", "vgpu", "--json"]) == 1
    answer = capsys.readouterr()
    assert Record.parse(answer.out).verdict is Verdict.FAIL
    assert "not archived: " in answer.err and "kept it locked" in answer.err
    holder.close()


def test_a_batch_is_kept_when_asked(archive_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch, out = tmp_path / "b.jsonl", tmp_path / "r.jsonl"
    good = json.dumps({"task": "swiglu", "source": KERNEL, "language": "plain"})
    batch.write_text(f"{good}\nnonsense\n")
    words = ["eval-batch", str(batch), "--device", "vgpu", "--jobs", "1", "--out", str(out)]
    assert run([*words, "--no-archive"]) == 1  # for the line that is no candidate; nothing is kept, as by default
    with Archive.open(archive_url) as archive:
        assert archive.count() == 0
        assert run([*words, "--archive"]) == 1  # what an earlier call left is kept too
        assert archive.count() == 1
        assert run([*words, "--archive"]) == 1
        assert archive.count() == 1
    capsys.readouterr()
