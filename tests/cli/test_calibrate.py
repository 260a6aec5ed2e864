"""`warpsmith calibrate`: a labelled corpus in, matrices and weights out; goes on after a kill."""

import json
from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._main import run
from warpsmith.evaluation.verify.aggregate import Weights
from warpsmith.evaluation.verify.replies import ReviewReply
from warpsmith.records import Candidate, Direction, Environment, Language, Reason, Record, StageResult, Verdict

SOURCE = (Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.plain.cu").read_text()
PASSED = StageResult(stage="check", verdict=Verdict.PASS, seconds=2.0)
FAILED = StageResult(stage="check", verdict=Verdict.FAIL, reason=Reason.WRONG_VALUE, detail="off", seconds=1.5)
UNBUILT = StageResult(stage="compile", verdict=Verdict.FAIL, reason=Reason.COMPILE_ERROR, detail="no such name")
KERNELS = {
    "honest seed swiglu": (SOURCE, PASSED),
    "mutant wrong_function swiglu:1": (SOURCE.replace("expf(", "exp2f(", 1), FAILED),
    "mutant undeclared_name swiglu:1": (SOURCE.replace("threadIdx.x", "thread_index", 1), UNBUILT),
}


def candidate(origin: str) -> Candidate:
    source, _ = KERNELS[origin]
    return Candidate(task="swiglu", direction=Direction.FORWARD, source=source, language=Language.PLAIN, origin=origin)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "requests.jsonl").write_text("".join(f"{candidate(one).text()}\n" for one in KERNELS))
    environment = Environment(device="cuda", hardware="h")
    records = [
        Record(candidate=candidate(one), task_version="1", environment=environment, results=(truth,))
        for one, (_, truth) in KERNELS.items()
    ]
    (folder / "truth.jsonl").write_text("".join(f"{one.text()}\n" for one in records))
    return folder


def test_what_was_measured_and_the_weights_that_follow(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, weights = corpus / "verified.jsonl", corpus / "weights.json"
    words = ["calibrate", "--corpus", str(corpus), "--out", str(out), "--save", str(weights), "--json", "-j", "1"]
    assert run(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["right"], found["wrong"]) == (1, 2)
    assert (found["together"]["caught"], found["together"]["alarms"]) == (2, 0)
    assert found["together"]["gpu_saved_s"] == 1.5
    assert Weights.parse(weights.read_text()).source == "3 kernels of corpus"
    assert len(out.read_text().splitlines()) == 3


def test_it_goes_on_where_its_file_ends(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = corpus / "verified.jsonl"
    words = ["calibrate", "--corpus", str(corpus), "--out", str(out), "--dry-run", "-j", "1"]
    assert run([*words, "--sample", "1"]) == 0
    with out.open("a") as file:
        file.write('{"candidate": "half a li')
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert len(out.read_text().splitlines()) == 3
    assert "2 of 2" in shown and "2 wrong kernels, 1 right ones" in shown and "wrong_function" in shown


def test_reviewers_answers_are_read_with_it(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = [{"role": role, "verdict": "wrong", "confidence": 1} for role in ("compile", "memory", "numerical")]
    replies = [ReviewReply(candidate=candidate(one).id, answer=json.dumps(roles), usd=0.5) for one in KERNELS]
    (corpus / "reviews.jsonl").write_text("".join(f"{one.text()}\n" for one in replies))
    assert run(["calibrate", "--corpus", str(corpus), "--dry-run", "--json", "-j", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["verifier"]: row for row in found["verifiers"]}
    assert rows["review_compile"]["caught"] == 1 and rows["review_compile"]["alarms"] == 1
    assert found["together"]["usd"] == 1.5 and found["together"]["alarms"] == 0


def test_a_corpus_without_labels_says_how_to_make_them(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (corpus / "truth.jsonl").unlink()
    assert run(["calibrate", "--corpus", str(corpus)]) == 2
    assert "eval-batch" in capsys.readouterr().err
    (corpus / "truth.jsonl").write_text("")
    assert run(["calibrate", "--corpus", str(corpus)]) == 2
    assert "no kernel with a verdict" in capsys.readouterr().err
