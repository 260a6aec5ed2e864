"""Reviewers in a search: models asked before an evaluation, and reviews that come through files."""

import json
from pathlib import Path

import pytest

import warpsmith
from warpsmith.app.session import make_evaluator
from warpsmith.app.verifying import make_screen, read_roles
from warpsmith.base import UsageError
from warpsmith.cli._main import run
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.config import machine_for
from warpsmith.evaluation.run import PreparedEvaluation
from warpsmith.evaluation.verify import Verifiers
from warpsmith.evaluation.verify.aggregate import Decision
from warpsmith.evaluation.verify.pipeline import Verified
from warpsmith.llm import Ensemble, Prompt, ScriptedModel
from warpsmith.machines.cuda.machine import CudaMachine
from warpsmith.machines.hardware import Gpu
from warpsmith.records import Candidate, Direction, Record
from warpsmith.search import Screen, SearchConfig
from warpsmith.search.fake import fake_record
from warpsmith.tasks.host import OpenTask

SEED = (Path(warpsmith.__file__).parent / "tasks" / "suite" / "swiglu" / "seed_forward.cu").read_text()
CANDIDATE = Candidate(task="swiglu", direction=Direction.FORWARD, source=SEED)
CONFIG = SearchConfig(target="swiglu", device="vgpu", reviewers="memory,numerical")


def verdict(word: str) -> str:
    body = {"verdict": word, "confidence": 0.99, "line": 40, "why": "reads past the end", "fix": "check the bound"}
    return f"```json\n{json.dumps(body)}\n```"


def screening(
    config: SearchConfig, models: Ensemble, screened: dict[str, PreparedEvaluation] | None = None
) -> Screen | None:
    return make_screen(config, models, read_roles(config.reviewers), None, {} if screened is None else screened)


def test_without_reviewers_the_virtual_gpu_needs_no_verifier_before_it() -> None:
    models = Ensemble([ScriptedModel([])])
    assert screening(SearchConfig(target="swiglu", device="vgpu"), models) is None
    assert screening(CONFIG, Ensemble()) is None


def test_an_unknown_reviewer_is_refused() -> None:
    with pytest.raises(UsageError, match="Reviewer speed does not exist; there are compile, memory"):
        screening(SearchConfig(target="swiglu", device="vgpu", reviewers="speed"), Ensemble([ScriptedModel([])]))


@pytest.mark.parametrize(("word", "go"), [("right", True), ("wrong", False)])
def test_models_review_what_compiles_and_their_fix_is_evidence(word: str, go: bool) -> None:
    asked: list[Prompt] = []

    def speak(prompt: Prompt) -> str:
        asked.append(prompt)
        return verdict(word)

    screen = screening(CONFIG, Ensemble([ScriptedModel(speak)]))
    assert screen is not None
    opinion = screen(CANDIDATE)
    assert len(asked) == 2 and all(prompt.kind == "review" for prompt in asked)
    assert [answer.text for answer in opinion.answers] == [verdict(word)] * 2
    assert opinion.confidence > 0.5 if go else "check the bound" in opinion.why


@pytest.mark.parametrize(("device", "arch"), [("cuda", "sm_86"), ("vgpu", "sm_90a")])
def test_verifiers_look_for_the_machine_that_evaluates(device: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Verifiers] = []
    machine = CudaMachine(Gpu("a GPU", "580", 1, "8.6"))

    def look(candidate: Candidate, opened: OpenTask, seed: int, verifiers: Verifiers) -> Verified:
        seen.append(verifiers)
        return Verified(candidate=candidate.id, decision=Decision(go=True, odds=-2.0))

    monkeypatch.setattr("warpsmith.machines.hardware.gpus", lambda: (machine.gpu,))
    monkeypatch.setattr(CudaMachine, "first", lambda *_: machine)
    monkeypatch.setattr("warpsmith.evaluation.verify.verify", look)
    screen = screening(CONFIG.model_copy(update={"device": device, "gpu": "H100"}), Ensemble([ScriptedModel([])]))
    assert screen is not None and screen(CANDIDATE).go
    (one,) = seen
    assert (machine_for(one.config).arch, one.config.gpu, one.virtual) == (arch, "H100", device == "cuda")


def test_the_evaluation_that_verifiers_began_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[PreparedEvaluation | None] = []

    def judged(
        candidate: Candidate,
        config: EvaluationConfig,
        seed: int | None = None,
        *,
        prepared: PreparedEvaluation | None = None,
    ) -> Record:
        resumed.append(prepared)
        return fake_record(candidate, 4.0)

    screened: dict[str, PreparedEvaluation] = {}
    screen = screening(CONFIG, Ensemble([ScriptedModel(lambda _prompt: verdict("right"))]), screened)
    assert screen is not None and screen(CANDIDATE).go
    evaluate = make_evaluator(CONFIG, "sketch", None, judged, screened)
    evaluate(CANDIDATE)
    evaluate(CANDIDATE)
    first, second = resumed
    assert first is not None and [stage.name for stage in first.remaining_stages] == ["check", "timing"]
    assert second is None and not screened


def test_a_candidate_that_does_not_compile_is_stopped_and_nobody_is_asked() -> None:
    model = ScriptedModel([])
    screen = screening(CONFIG, Ensemble([model]))
    assert screen is not None
    opinion = screen(CANDIDATE.model_copy(update={"source": SEED.replace("expf(", "no_such_function(")}))
    assert not opinion.go and "no_such_function" in opinion.why and not model.asked


def test_what_is_requested_elsewhere_is_verified_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, asked, found = tmp_path / "letters", tmp_path / "f.jsonl", tmp_path / "r.jsonl"
    ask = ["ask", "mine", "--elsewhere", "-n", "2", "--out", str(folder)]
    assert run([*ask, "--task", "swiglu", "--device", "cuda"]) == 0
    assert run(["tell", "mine", "--requests", str(asked)]) == 0
    found.write_text(fake_record(Candidate.parse(asked.read_text()), 4.0).text())
    assert run(["tell", "mine", "--results", str(found)]) == 0
    assert run(ask) == 0
    for place, function in enumerate(("__expf", "no_such_function")):
        text = f"Name: k\n\n```cuda\n{SEED.replace('expf(', f'{function}(')}```\n"
        (folder / f"1.{place}.answer.md").write_text(text)
    capsys.readouterr()
    assert run(["tell", "mine", str(folder), "--requests", str(asked), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["waiting"] == 1 and "stopped" in told["lines"][0] and "no_such_function" in told["lines"][0]
    assert "__expf" in Candidate.parse(asked.read_text()).source


def test_reviews_are_asked_and_told_through_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, reviews, asked = tmp_path / "letters", tmp_path / "reviews", tmp_path / "f.jsonl"
    start = tmp_path / "start.cu"
    start.write_text(SEED)
    words = ["ask", "mine", "--task", "swiglu", "--device", "cuda", "--from", str(start), "--elsewhere"]
    assert run([*words, "--out", str(folder)]) == 0
    assert run(["tell", "mine", "--requests", str(asked)]) == 0
    assert run(["ask", "mine", "--reviews", "--out", str(reviews)]) == 0
    pages = sorted(page.name for page in reviews.glob("*.prompt.md"))
    assert pages == [f"0.0.{role}.prompt.md" for role in ("cheating", "compile", "memory", "numerical")]
    (reviews / "0.0.memory.answer.md").write_text(verdict("right"))
    capsys.readouterr()
    assert run(["tell", "mine", str(reviews), "--requests", str(asked), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["waiting"] == 1
