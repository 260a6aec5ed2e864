"""Calibration on corpora written by hand: labels from records, matrices from labels, weights from matrices."""

import json
from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation.verify.aggregate import Decision, Weight, Weights, decide
from warpsmith.evaluation.verify.calibrate import CalibrationSample, calibrate, role_matrix
from warpsmith.evaluation.verify.pipeline import Verified, signals_of
from warpsmith.evaluation.verify.replies import ReviewReply, read_attacks, read_replies, reviewed, unseen
from warpsmith.evaluation.verify.review import ReviewerRole, UnusableReview
from warpsmith.evaluation.verify.specimens import Label, LabelledKernel, labelled, read_candidates, read_specimens
from warpsmith.records import (
    Candidate,
    Direction,
    Environment,
    Reason,
    Record,
    StageResult,
    StaticFacts,
    Verdict,
)

PASSED = StageResult(stage="check", verdict=Verdict.PASS, seconds=2.0)
FAILED = StageResult(stage="check", verdict=Verdict.FAIL, reason=Reason.WRONG_VALUE, detail="off", seconds=1.0)
SANITIZED = StageResult(stage="sanitizer", verdict=Verdict.FAIL, reason=Reason.SANITIZER, detail="race", seconds=0.5)
UNBUILT = StageResult(stage="compile", verdict=Verdict.FAIL, reason=Reason.COMPILE_ERROR, detail="; expected")
OURS = StageResult(stage="check", verdict=Verdict.FAULT, reason=Reason.HARNESS, detail="ours")


def candidate(origin: str) -> Candidate:
    return Candidate(task="softmax", direction=Direction.FORWARD, source=f"// {origin}", origin=origin)


def record(origin: str, *results: StageResult) -> Record:
    environment = Environment(device="cuda", hardware="h")
    return Record(candidate=candidate(origin), task_version="1", environment=environment, results=results)


def label(origin: str, *results: StageResult) -> LabelledKernel | None:
    return labelled(candidate(origin), record(origin, *results))


def test_labels_come_from_what_the_gpu_said() -> None:
    right, survivor = label("honest seed s", PASSED), label("mutant lost_eps s:1", PASSED)
    wrong, raced = label("mutant lost_eps s:1", FAILED), label("mutant missing_barrier s:2", PASSED, SANITIZED)
    assert right is not None and right.label is Label.RIGHT and right.gpu_s == 2.0
    assert survivor is not None and survivor.label is Label.SURVIVOR
    assert wrong is not None and wrong.label is Label.WRONG and wrong.reason is Reason.WRONG_VALUE
    assert raced is not None and raced.label is Label.WRONG and raced.gpu_s == 2.5


def test_what_has_no_verdict_has_no_label() -> None:
    assert label("honest seed s", OURS) is None
    assert label("honest seed s", StageResult(stage="compile", verdict=Verdict.PASS)) is None


def trial(origin: str, truth: StageResult, *said: StageResult) -> CalibrationSample:
    specimen = label(origin, truth)
    assert specimen is not None
    return CalibrationSample(
        specimen, Verified(candidate="c", decision=Decision(go=True, odds=0.0), results=said, seconds=3.0)
    )


SILENT = StageResult(stage="static", verdict=Verdict.PASS, facts=StaticFacts())
BUILT = StageResult(stage="compile", verdict=Verdict.PASS, seconds=1.0)
RAN = StageResult(stage="virtual", verdict=Verdict.PASS, seconds=2.0)
SEEN = RAN.model_copy(update={"verdict": Verdict.FAIL, "reason": Reason.WRONG_VALUE, "detail": "off"})
TRIALS = [
    *[trial(f"honest seed {n}", PASSED, SILENT, BUILT, RAN) for n in range(6)],
    *[trial(f"mutant lost_eps s:{n}", FAILED, SILENT, BUILT, SEEN) for n in range(6)],
    trial("mutant syntax_error s:1", UNBUILT, SILENT, UNBUILT),
    trial("mutant narrowed_index s:1", FAILED, SILENT, BUILT, RAN),
    trial("mutant missing_barrier s:1", PASSED, SILENT, BUILT, SEEN),
]


def test_each_verifier_has_its_matrix_and_price() -> None:
    found = calibrate(TRIALS, "by hand")
    assert (found.right, found.wrong, found.survivors) == (6, 8, 1)
    by = {one.verifier: one for one in found.verifiers}
    assert (by["compile"].caught, by["compile"].missed, by["compile"].alarms) == (1, 7, 0)
    assert (by["virtual"].caught, by["virtual"].missed, by["virtual"].survivors) == (6, 1, 1)
    assert by["virtual"].seconds == 28.0 and by["virtual"].gpu_saved_s == 6.0
    assert by["static"].accuracy == pytest.approx(6 / 14)


def test_together_they_stop_what_can_be_stopped_and_no_right_kernel() -> None:
    found = calibrate(TRIALS, "by hand")
    assert (found.together.caught, found.together.missed, found.together.alarms) == (7, 1, 0)
    assert (found.together.caught, found.together.missed) == (7, 1) and found.together.survivors == 1
    assert found.operators["lost_eps"].caught == 6 and found.operators["narrowed_index"].missed == 1
    assert {one.origin for one in found.surprises} == {"mutant narrowed_index s:1", "mutant missing_barrier s:1"}


def test_the_weights_decide_as_was_measured() -> None:
    weights = calibrate(TRIALS, "by hand").weights
    assert weights.source == "by hand"
    go = [decide(signals_of(one.verified), weights).go for one in TRIALS]
    assert go[:6] == [True] * 6 and go[6:13] == [False] * 7 and go[13]


def test_who_did_not_look_keeps_the_weight_it_had() -> None:
    before = Weights(prior=0.0, verifiers={"review_memory": Weight(alarm=1.5, clear=-0.5)}, stop=0.0)
    weights = calibrate(TRIALS, "by hand", before).weights
    assert weights.verifiers["review_memory"] == before.verifiers["review_memory"]
    assert weights.verifiers["virtual"].alarm > 1.5


def test_the_threshold_leaves_room_on_both_sides() -> None:
    weights = calibrate(TRIALS, "by hand").weights
    caught = decide(TRIALS[6].spoken, weights).odds
    assert decide(TRIALS[0].spoken, weights).odds + 0.5 < weights.stop < caught - 0.5


def test_a_verifier_that_cries_wolf_raises_the_threshold() -> None:
    noisy = [trial("honest seed 7", PASSED, SILENT, BUILT, SEEN), *TRIALS]
    found = calibrate(noisy, "by hand")
    assert found.together.alarms == 0 and found.together.caught < 7


def answer(**verdicts: str) -> str:
    return json.dumps([{"role": role, "verdict": verdict, "confidence": 0.9} for role, verdict in verdicts.items()])


def test_a_reviewer_is_measured_on_its_own_question() -> None:
    objecting = answer(compile="right", memory="wrong", numerical="wrong", cheating="right")
    calm = answer(compile="right", memory="right", numerical="right", cheating="right")
    trials = [
        CalibrationSample(one.specimen, reviewed(one.verified, (ReviewReply(candidate="c", answer=text),)))
        for one, text in zip(TRIALS, [calm] * 5 + [objecting] * 10, strict=True)
    ]
    numerical, memory = role_matrix(ReviewerRole.NUMERICAL, trials), role_matrix(ReviewerRole.MEMORY, trials)
    assert (numerical.caught, numerical.missed, numerical.alarms, numerical.cleared) == (6, 0, 1, 5)
    assert (memory.caught, memory.missed, memory.alarms) == (1, 0, 1)
    assert role_matrix(ReviewerRole.COMPILE, trials).missed == 1
    found = calibrate(trials, "by hand")
    assert "review_numerical" in found.weights.verifiers and found.together.alarms == 0
    assert found.without_model.caught == 7


def test_attacks_are_the_cheating_reviewer_s_alone() -> None:
    attack = LabelledKernel(candidate=candidate("attack replay"), label=Label.WRONG, stage="attack")
    said = reviewed(unseen("x"), (ReviewReply(candidate="x", answer=answer(cheating="wrong", memory="wrong")),))
    assert len(said.bad_answers) == 2 and all(isinstance(one, UnusableReview) for one in said.bad_answers)
    trials = [*TRIALS, CalibrationSample(attack, said)]
    assert role_matrix(ReviewerRole.CHEATING, trials).caught == 1
    assert role_matrix(ReviewerRole.MEMORY, trials).seen == 0
    assert calibrate(trials, "by hand").wrong == 8


def test_a_corpus_is_read_from_its_folder(tmp_path: Path) -> None:
    origins = {"honest seed s": (PASSED,), "mutant lost_eps s:1": (FAILED,), "mutant lost_eps s:2": (OURS,)}
    (tmp_path / "requests.jsonl").write_text("".join(f"{candidate(one).text()}\n" for one in origins))
    with pytest.raises(UsageError, match=r"has no truth\.jsonl: run `warpsmith eval-batch"):
        read_specimens(tmp_path)
    lines = [record(origin, *results).text() for origin, results in origins.items()]
    (tmp_path / "truth.jsonl").write_text("\n".join([*lines, '{"error": "e", "line": 4, "input": "i"}']))
    assert [one.label for one in read_specimens(tmp_path)] == [Label.RIGHT, Label.WRONG]
    assert len(read_candidates(tmp_path)) == 3 and read_attacks(tmp_path) == [] and read_replies(tmp_path) == {}


def test_bad_files_say_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="no list of candidates: task: Field required"):
        read_candidates(tmp_path)
    (tmp_path / "reviews.jsonl").write_text(ReviewReply(candidate="a", answer="x").text() + "\nnonsense\n")
    with pytest.raises(UsageError, match=r"Line 2 of .* is no answer"):
        read_replies(tmp_path)
