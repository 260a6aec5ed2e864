"""`optimize`, `ask` and `tell`: what they print, what they refuse, what they keep. The evaluator is a fake."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any, ClassVar

import pytest

import warpsmith
from warpsmith.archive import Archive, RunState
from warpsmith.cli._main import STOPPING, run
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.processes.judges import Grade, judges_for
from warpsmith.llm import Ensemble, Prompt, ScriptedModel
from warpsmith.records import Candidate, Reason, Record
from warpsmith.search.fake import fake_record

sys.path.insert(0, str(Path(__file__).parent))
from searching import judged

PROGRAM = Path(__file__).parent / "searching.py"
SEED = Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.cu"
WORDS = ["optimize", "swiglu", "--device", "vgpu"]

EvaluateWith = Callable[[Callable[..., Record]], None]


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of a model provider."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def instant(evaluate_with: EvaluateWith) -> None:
    """An evaluator that answers at once."""
    evaluate_with(judged)


def answered(code: str) -> str:
    return f"Name: faster\nThought: wide loads.\n\n```cuda\n{code}\n```\n"


class Scripted:
    """Stands for `open_ensemble`: a model that appends a comment-proof change to the seed each time."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, text: str, spend: object = None) -> Ensemble:
        return Ensemble([ScriptedModel(self.speak, "scripted")])

    def speak(self, prompt: Prompt) -> str:
        self.count += 1
        return answered(f"{SEED.read_text()}\nint extra_{self.count}() {{ return {self.count}; }}")


@pytest.fixture
def scripted_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.llm.open_ensemble", Scripted())


class Judged:
    """Judges that answer at once, and remember how many they are and that they ended."""

    told: ClassVar[list[str]] = []

    def __init__(self, count: int, uuids: Sequence[str]) -> None:
        self.told.append(f"{count} begun on {' and '.join(uuids)}")

    def grade(self, *asked: Any) -> Record:
        self.told.append("asked")
        return judged(*asked)

    def close(self) -> None:
        self.told.append("ended")


def test_on_gpus_judges_evaluate_what_a_search_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpsmith.evaluation.processes.judges.Judges", Judged)
    monkeypatch.setenv("WARPSMITH_REHEARSED_GPUS", "2")
    assert run(["optimize", "swiglu", "--device", "rehearsed", "--run", "there", "-j", "3"]) == 0
    first, *asked, last = Judged.told
    assert first == "3 begun on REHEARSED-0 and REHEARSED-1"
    assert (set(asked), last) == ({"asked"}, "ended")


def test_it_ends_with_the_path_the_evidence_and_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, "--run", "mine"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("mine: swiglu, forward, on vgpu\n"), "the run's name before anything takes time"
    assert "0.0 seed: pass" in shown and "tune VEC=4: pass" in shown
    last = shown[shown.rindex("kernel:") :].splitlines()
    path = Path(last[0].removeprefix("kernel:").strip())
    assert path.read_text() == SEED.read_text()
    assert last[1].startswith("evidence: 3.76× the first kernel")
    after = shlex.split(last[2].removeprefix("next:"))
    assert after[:4] == ["warpsmith", "eval", "swiglu", str(path)] and "-DVEC=4" in after


def test_evaluations_are_counted_as_the_archive_has_them(
    capsys: pytest.CaptureFixture[str], evaluate_with: EvaluateWith
) -> None:
    def at_length(candidate: Candidate, config: EvaluationConfig, seed: int | None = None) -> Record:
        record = judged(candidate)
        return record.model_copy(update={"options": record.options.model_copy(update={"effort": config.effort})})

    evaluate_with(at_length)
    assert run([*WORDS, "--run", "mine", "--budget-evaluations", "2"]) == 0
    shown = capsys.readouterr().out
    assert "mine: 2 of 2 evaluations are done\n  3 evaluations, 1 of them at length, in" in shown
    assert run(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["evaluations"] == 3


@pytest.fixture
def mishaps(evaluate_with: EvaluateWith) -> list[Reason]:
    """What becomes of the next evaluations at length, until the list is empty."""
    left: list[Reason] = []

    def judge(candidate: Candidate, config: EvaluationConfig, seed: int | None = None) -> Record:
        if config.effort == "thorough" and left:
            return fake_record(candidate.model_copy(update={"task": "swiglu"}), left.pop(0))
        return judged(candidate)

    evaluate_with(judge)
    return left


def test_a_winner_whose_gpu_was_disturbed_is_evaluated_once_more(
    mishaps: list[Reason], capsys: pytest.CaptureFixture[str]
) -> None:
    mishaps.append(Reason.DISTURBED)
    assert run([*WORDS, "--run", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(3.759, abs=0.01) and found["unsettled"] == []


def test_a_winner_that_could_not_be_evaluated_is_said_and_tried_again_by_resume(
    mishaps: list[Reason], capsys: pytest.CaptureFixture[str]
) -> None:
    mishaps += [Reason.DISTURBED, Reason.HARNESS]
    assert run([*WORDS, "--run", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "not evaluated at length: " in shown and "3.76× the first kernel: the fake evaluator says harness" in shown
    assert "best: 3.57× the first kernel" in shown, "the kernel that is named, not the one that is not"
    assert run(["optimize", "--run", "mine", "--resume", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(3.759, abs=0.01) and found["unsettled"] == []


def test_where_nothing_could_be_evaluated_no_kernel_is_blamed(
    mishaps: list[Reason], capsys: pytest.CaptureFixture[str]
) -> None:
    mishaps += [Reason.HARNESS] * 6
    assert run([*WORDS, "--run", "mine"]) == 4
    shown = capsys.readouterr().out
    assert "none of the best is known to hold" in shown and shown.count("not evaluated at length") == 3


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, "--run", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(3.759, abs=0.01) and found["run"]["state"] == "done"
    assert Record.model_validate(found["record"]).candidate.macros["VEC"] == "4"


def test_the_same_from_python(archive_url: str) -> None:
    done = warpsmith.optimize("swiglu", device="vgpu", run="mine", generations=1)
    assert done.state is RunState.DONE and done.why == "1 of 1 generations are done"
    with Archive.open(archive_url) as archive:
        assert archive.count("mine") > 1


def test_a_name_that_is_taken_is_refused_and_resume_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, "--run", "mine", "--generations", "1"]) == 0
    assert run([*WORDS, "--run", "mine"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(["optimize", "--run", "mine", "--resume", "--generations", "9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["gain"] == pytest.approx(3.759, abs=0.01)


def test_a_kernel_of_the_user_is_where_it_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.cu"
    mine.write_text(SEED.read_text().replace("// tune:", "// no longer:"))
    assert run([*WORDS, "--from", str(mine), "--run", "r", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == 1.0 and found["record"]["candidate"]["origin"] == "user"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["optimize"], "Name a task"),
        (["optimize", "nonsense"], "nonsense"),
        (["optimize", "--resume"], "--run NAME --resume"),
        (["optimize", "--resume", "--run", "absent"], "Run absent does not exist"),
        ([*WORDS, "--from", "absent.cu"], "absent.cu"),
        ([*WORDS, "--run", "a/b"], "a/b"),
        ([*WORDS, "--generations", "-1"], "--generations"),
        ([*WORDS, "--proposals", "0"], "--proposals"),
        ([*WORDS, "--budget-usd", "-1"], "--budget-usd"),
        ([*WORDS, "--device", "tpu"], "Device tpu"),
        ([*WORDS, "--models", "openai"], "PROVIDER:MODEL"),
        ([*WORDS, "--models", "openai:gpt-5"], "OPENAI_API_KEY"),
        ([*WORDS, "--models", "anthropic:claude-sonnet-4-5"], "ANTHROPIC_API_KEY"),
        ([*WORDS, "--replay", "absent.jsonl"], "absent.jsonl"),
        (["ask", "absent", "--out", "x"], "Run absent does not exist. --task TASK begins it"),
        (["tell", "absent"], "Run absent does not exist"),
    ],
)
def test_what_cannot_be_used_is_said(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [*WORDS, "--models", "openai:gpt-5"],
        [*WORDS, "--gpu", "H20"],
        [*WORDS, "--reviewers", "nobody"],
        ["ask", "mine", "--task", "swiglu", "--device", "vgpu", "--out", "x", "--gpu", "H20"],
    ],
)
def test_what_cannot_be_used_leaves_no_run_behind(words: list[str], archive_url: str) -> None:
    assert run(words) == 2
    with Archive.open(archive_url) as archive:
        assert archive.runs() == ()


@pytest.mark.usefixtures("without_nvcc")
@pytest.mark.parametrize("words", [WORDS, ["ask", "mine", "--task", "swiglu", "--device", "vgpu", "--out", "x"]])
def test_without_nvcc_nothing_is_begun(words: list[str], archive_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 3
    assert capsys.readouterr().err.startswith("error: WARPSMITH_CUDA_HOME names /nowhere, which has no bin/nvcc.")
    with Archive.open(archive_url) as archive:
        assert archive.runs() == ()


def test_without_a_seed_and_without_a_model_the_ways_out_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.app.session.first_candidate", lambda *rest: None)
    assert run(WORDS) == 2
    shown = capsys.readouterr().err
    assert all(word in shown for word in ("no seed kernel", "--models", "ANTHROPIC_API_KEY", "--from", "warpsmith ask"))


def test_a_budget_of_zero_asks_nobody_and_tunes_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    model = "openai-compatible:m,base_url=http://127.0.0.1:9,usd_per_mtok=1"
    assert run([*WORDS, "--models", model, "--budget-usd", "0", "--run", "r", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(3.759, abs=0.01) and found["usd"] == 0.0


def test_an_endpoint_that_is_not_there_is_lost_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    model = "openai-compatible:m,base_url=http://127.0.0.1:9,attempts=1"
    assert run([*WORDS, "--models", model, "--run", "r"]) == 0
    shown = capsys.readouterr().out
    assert "lost: " in shown and "cannot be reached" in shown and "3.76× the first kernel" in shown


@pytest.mark.usefixtures("scripted_model")
def test_traffic_is_recorded_and_replayed_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tape = tmp_path / "tape.jsonl"
    asked = [*WORDS, "--generations", "2", "--json"]
    assert run([*asked, "--models", "x:y", "--record", str(tape), "--run", "first"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert run([*asked, "--replay", str(tape), "--run", "again"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["record"]["candidate"] == first["record"]["candidate"]
    assert again["evaluations"] == first["evaluations"]


@pytest.mark.usefixtures("scripted_model")
def test_a_replay_that_does_not_match_says_where_and_the_archive_is_whole(
    tmp_path: Path, archive_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = tmp_path / "tape.jsonl"
    assert run([*WORDS, "--generations", "1", "--models", "x:y", "--record", str(tape), "--run", "a", "--json"]) == 0
    capsys.readouterr()
    assert run([*WORDS, "--generations", "1", "--replay", str(tape), "--run", "b", "--seed", "5"]) == 3
    assert "does not hold a propose prompt" in capsys.readouterr().err
    with Archive.open(archive_url) as archive:
        assert archive.run("b").state is RunState.FAILED and archive.count("b") == 1


def test_an_archive_that_cannot_be_written_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_ARCHIVE", "sqlite:////proc/nowhere/archive.sqlite")
    assert run([*WORDS]) == 3
    assert "archive" in capsys.readouterr().err.lower()


def searching(archive_url: str, until: str = "tune", each_s: str = "0.3") -> subprocess.Popen[str]:
    """A search in a process of its own that has said a word; the usual one is of its second generation."""
    child = subprocess.Popen(
        [sys.executable, str(PROGRAM), each_s, *WORDS, "--run", "mine"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WARPSMITH_ARCHIVE": archive_url},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )
    assert child.stdout is not None
    for line in child.stdout:
        if until in line:
            break
    return child


def test_a_run_says_running_while_its_process_is_there(archive_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    child = searching(archive_url)
    assert run(["runs"]) == run(["show", "mine"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("  running") == 2 and "--resume" not in shown
    child.kill()
    child.communicate(timeout=60)
    assert run(["runs"]) == run(["show", "mine"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("not finished") == 2 and "warpsmith optimize swiglu --run mine --resume" in shown


def test_ctrl_c_keeps_everything_and_prints_how_to_go_on(archive_url: str) -> None:
    child = searching(archive_url)
    child.send_signal(signal.SIGINT)
    shown, said = child.communicate(timeout=60)
    assert child.returncode == 130 and said.splitlines()[0] == STOPPING
    assert "interrupted" in shown and "warpsmith optimize swiglu --run mine --resume" in shown
    with Archive.open(archive_url) as archive:
        assert archive.run("mine").state is RunState.STOPPED and archive.count("mine") >= 2


def test_ctrl_c_before_anything_is_finished_blames_no_kernel(archive_url: str) -> None:
    child = searching(archive_url, "on vgpu", "2")
    time.sleep(0.5)  # the search has begun with its first kernel
    child.send_signal(signal.SIGINT)
    shown = child.communicate(timeout=60)[0]
    assert "no generation is finished yet" in shown and "no kernel was right" not in shown
    assert "verdicts:" not in shown and "next:     warpsmith optimize swiglu --run mine --resume" in shown


def test_ask_and_tell_make_a_run_of_answers_in_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counted(config: EvaluationConfig, jobs: int, until: ExitStack) -> Grade:
        asked.append(jobs)
        return judges_for(config, jobs, until)

    monkeypatch.setattr("warpsmith.evaluation.processes.judges_for", counted)
    folder = tmp_path / "letters"
    assert run(["ask", "mine", "--task", "swiglu", "--device", "vgpu", "-n", "2", "--out", str(folder)]) == 0
    assert "2 questions" in capsys.readouterr().out
    pages = sorted(folder.glob("*.prompt.md"))
    assert len(pages) == 2 and all("silu(gate)" in page.read_text() for page in pages)
    first = pages[0].name.replace(".prompt", ".answer")
    (folder / first).write_text(answered(SEED.read_text() + "\nint other() { return 1; }"))
    asked.clear()  # `ask` evaluates the seed
    assert run(["tell", "mine", str(folder), "-j", "3"]) == 0
    shown = capsys.readouterr().out
    assert "'faster': pass" in shown and "not answered: 1.1" in shown
    assert asked == [1, 1], "as many answers as can be evaluated, then the best kernel fully"
    (folder / "1.1.answer.md").write_text("Wide loads would help.")
    assert run(["tell", "mine", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["closed"] and "bad_answer: no_code" in told["lines"][0]


@pytest.mark.usefixtures("without_nvcc")
def test_evaluation_elsewhere_goes_through_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.machines.hardware.gpus", tuple)
    folder, asked, found = tmp_path / "letters", tmp_path / "f.jsonl", tmp_path / "r.jsonl"
    begin = ["ask", "mine", "--task", "swiglu", "--device", "cuda", "--elsewhere", "-n", "1", "--out", str(folder)]
    assert run(begin) == run(["show", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "tell mine --requests" in shown and "waiting for tell --requests" in shown
    assert "warpsmith tell mine DIR --requests F.jsonl" in shown
    for expected in ("seed", "somebody"):
        assert run(["tell", "mine", str(folder)]) == 2
        assert "elsewhere: --requests" in capsys.readouterr().err
        assert run(["tell", "mine", str(folder), "--requests", str(asked)]) == 0
        assert "not verified here: WARPSMITH_CUDA_HOME names" in capsys.readouterr().out
        assert run(["tell", "mine", "--results", str(asked)]) == 2, "requests are no results"
        assert "holds no result" in capsys.readouterr().err
        (line,) = asked.read_text().splitlines()
        assert json.loads(line)["origin"] == expected
        assert run(["eval-batch", str(asked), "--device", "vgpu", "--out", str(found)]) == 0
        found.write_text(found.read_text() + "not a record\n")
        assert run(["runs"]) == run(["show", "mine"]) == 0
        shown = capsys.readouterr().out
        assert "waiting for evaluations elsewhere" in shown and "warpsmith tell mine --results R.jsonl" in shown
        assert run(["tell", "mine", "--results", str(found), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["closed"] and "holds no record" in told["lines"][0] and ": pass" in told["lines"][1]
        found.unlink()
        assert run(["ask", "mine", "-n", "1", "--out", str(folder)]) == 0
        name = sorted(folder.glob("*.prompt.md"))[-1].name.replace(".prompt", ".answer")
        (folder / name).write_text(answered(SEED.read_text() + "\nint other() { return 1; }"))


def begin_letters(folder: Path, *more: str) -> list[str]:
    return ["ask", "mine", "--task", "swiglu", "--device", "vgpu", "-n", "1", "--out", str(folder), *more]


def test_a_run_goes_elsewhere_and_comes_back(tmp_path: Path, archive_url: str) -> None:
    folder = tmp_path / "letters"
    assert run(begin_letters(folder)) == 0
    (folder / "1.0.answer.md").write_text(answered(SEED.read_text() + "\nint other() { return 1; }"))
    assert run(["ask", "mine", "--elsewhere", "--out", str(folder)]) == 0
    assert run(["tell", "mine", str(folder)]) == 2
    with Archive.open(archive_url) as archive:
        assert archive.count("mine") == 1, "nothing of it was evaluated here"
    assert run(["ask", "mine", "--here", "--out", str(folder)]) == 0
    assert run(["tell", "mine", str(folder)]) == 0
    with Archive.open(archive_url) as archive:
        assert archive.count("mine") == 2


def test_questions_that_somebody_was_asked_are_left_to_them(
    tmp_path: Path, archive_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "letters"
    assert run(begin_letters(folder)) == 0
    capsys.readouterr()
    assert run(["show", "mine"]) == run(["runs"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("waiting for answers") == 2 and "--resume" not in shown
    assert "warpsmith ask mine --out DIR\nwarpsmith tell mine DIR\n" in shown
    assert run(["optimize", "--run", "mine", "--resume"]) == 2
    assert "waits for answers: 1.0. warpsmith ask mine" in capsys.readouterr().err
    (folder / "1.0.answer.md").write_text(answered(SEED.read_text() + "\nint other() { return 1; }"))
    assert run(["tell", "mine", str(folder)]) == 0
    assert "1.0 " in capsys.readouterr().out
    assert run(["optimize", "--run", "mine", "--resume", "--json"]) == 0, "what was told is a run like any other"
    assert json.loads(capsys.readouterr().out)["gain"] > 3


def test_an_answer_that_comes_too_late_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "letters"
    assert run(begin_letters(folder)) == run(["tell", "mine", "--drop"]) == 0
    (folder / "1.0.answer.md").write_text(answered(SEED.read_text() + "\nint other() { return 1; }"))
    capsys.readouterr()
    assert run(["tell", "mine", str(folder)]) == 0
    assert "1.0: not taken, its question is closed: model_failed" in capsys.readouterr().out


def test_letters_are_recorded_and_replayed(
    tmp_path: Path, archive_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, tape = tmp_path / "letters", tmp_path / "tape.jsonl"
    begin = ["--task", "swiglu", "--device", "vgpu", "-n", "1"]
    with chdir(tmp_path):
        assert run(["ask", "mine", *begin, "--out", str(folder), "--who", "ann", "--record", "tape.jsonl"]) == 0
    for count in range(2):
        text = answered(f"{SEED.read_text()}\nint other_{count}() {{ return {count}; }}")
        (folder / f"{count + 1}.0.answer.md").write_text(text)
        assert run(["tell", "mine", str(folder)]) == 0
        assert run(["ask", "mine", "--out", str(folder)]) == 0
        assert not (folder / f"{count + 2}.1.prompt.md").exists()  # as many as before
    assert run(["ask", "again", *begin, "--out", str(tmp_path / "again"), "--replay", str(tape)]) == 0
    for count in range(2):
        assert run(["tell", "again", str(tmp_path / "again")]) == 0
        assert run(["ask", "again", "--out", str(tmp_path / "again")]) == 3 * count  # at the end nothing is left
    assert "has no propose prompt left" in capsys.readouterr().err
    with Archive.open(archive_url) as archive:
        found = [[one.record.candidate for one in archive.records(name)] for name in ("mine", "again")]
        assert found[0] == found[1] and len(found[0]) == 3 and found[0][-1].origin == "ann"
        assert "warpsmith ask mine --out DIR --task swiglu" in archive.run("mine").command


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--record", "a.jsonl", "--replay", "b.jsonl"], "exclude each other"),
        (["--record", "a.jsonl", "--elsewhere"], "evaluated here"),
        (["--replay", "absent.jsonl"], "absent.jsonl"),
    ],
)
def test_letters_that_cannot_be_recorded_are_refused(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ask", "one", "--task", "swiglu", "--device", "vgpu", "--out", str(tmp_path), *words]) == 2
    assert complaint in capsys.readouterr().err


def test_letters_of_another_run_or_of_nobody_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "letters"
    assert run(["ask", "one", "--task", "swiglu", "--device", "vgpu", "-n", "1", "--out", str(folder)]) == 0
    assert run(["ask", "two", "--task", "swiglu", "--device", "vgpu", "-n", "1", "--out", str(tmp_path / "x")]) == 0
    assert run(["tell", "two", str(folder)]) == 2
    assert "questions of run one" in capsys.readouterr().err
    (folder / "9.9.answer.md").write_text("x")
    assert run(["tell", "one", str(folder)]) == 2
    assert "answers to no question: 9.9.answer.md" in capsys.readouterr().err
    assert run(["tell", "one", str(tmp_path)]) == 2
    assert "not a folder that `warpsmith ask` wrote" in capsys.readouterr().err


def test_a_task_in_a_file_is_found_again_from_another_folder(tmp_path: Path, archive_url: str) -> None:
    from warpsmith.app.session import task_label

    foreign = Path(__file__).parents[1] / "foreign"
    with chdir(foreign):
        here = task_label("kernelbench/1_Row_scale.py")
    assert task_label(here) == here == str(foreign / "kernelbench" / "1_Row_scale.py")
    assert task_label("swiglu") == "swiglu"
