"""The data model: ids, keys, impossible states, the JSON form, the golden records and the published schema."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from warpsmith.records import (
    Candidate,
    CheckFacts,
    CompileFacts,
    Confined,
    ConfinementForm,
    Direction,
    Environment,
    EvaluationOptions,
    Finding,
    MeasuredTime,
    ModelledTime,
    Reason,
    Record,
    Run,
    StageResult,
    Task,
    Verdict,
)
from warpsmith.records.environment import FORMS

ROOT = Path(__file__).parents[2]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))
KERNEL = Candidate(task="softmax", direction=Direction.FORWARD, source="__global__ void k() {}")
HERE = Environment(device="vgpu", hardware="H200-virtual")


def record(**changes: object) -> Record:
    return Record.model_validate({"candidate": KERNEL, "task_version": "1", "environment": HERE} | changes)


def test_id_follows_content_not_ancestry() -> None:
    assert KERNEL.model_copy(update={"parents": ("a",), "origin": "model"}).id == KERNEL.id
    assert KERNEL.model_copy(update={"source": "x"}).id != KERNEL.id
    assert KERNEL.model_copy(update={"macros": {"BLOCK": "128"}}).id != KERNEL.id


def test_key_follows_hardware_and_options_not_seeds_and_not_the_hour() -> None:
    assert record(options=EvaluationOptions(seeds=(1, 2))).key == record().key
    later = HERE.model_copy(update={"when": datetime(2026, 1, 2, tzinfo=UTC)})
    assert record(environment=later).key == record().key
    assert Record.parse(record(environment=later).text()).environment.when == later.when
    assert record(options=EvaluationOptions(cache="warm")).key != record().key
    assert record(environment=Environment(device="cuda", hardware="H200")).key != record().key


def test_verdict_is_the_first_that_stopped() -> None:
    passed = StageResult(stage="compile", verdict=Verdict.PASS)
    failed = StageResult(stage="virtual", verdict=Verdict.FAIL, reason=Reason.FINDINGS)
    assert record().verdict is Verdict.SKIP
    assert record().with_result(passed).verdict is Verdict.PASS
    assert record().with_result(passed).with_result(failed).verdict is Verdict.FAIL
    assert record().with_result(failed).result("virtual") == failed


def test_a_kernel_of_a_run_is_evaluated_again_on_the_gpu_that_was_modelled() -> None:
    one = Run(name="r", target="my task", task="softmax", direction=Direction.FORWARD, device="vgpu")
    tuned = KERNEL.model_copy(update={"macros": {"VEC": "4", "BLOCK": "128"}})
    words = "warpsmith eval 'my task' k.cu --direction forward --device vgpu{} -DBLOCK=128 -DVEC=4"
    for gpu, more in (("H200", ""), ("A100", " --gpu A100")):
        made = record(candidate=tuned, options=EvaluationOptions(device="vgpu", extra={"gpu": gpu}))
        assert one.eval_command(made, "k.cu") == words.format(more)


@pytest.mark.parametrize(
    ("verdict", "reason", "blameless"),
    [
        (Verdict.FAULT, Reason.HARNESS, True),
        (Verdict.FAULT, Reason.UNCONFINED, True),
        (Verdict.QUARANTINE, Reason.DISTURBED, True),
        (Verdict.QUARANTINE, Reason.TOO_GOOD, False),
        (Verdict.FAIL, Reason.WRONG_VALUE, False),
        (Verdict.PASS, None, False),
    ],
)
def test_a_kernel_is_not_blamed_for_us_nor_for_a_disturbed_gpu(
    verdict: Verdict, reason: Reason | None, blameless: bool
) -> None:
    assert record().with_result(StageResult(stage="timing", verdict=verdict, reason=reason)).blameless is blameless


def test_what_ended_the_way_is_the_first_that_neither_passed_nor_skipped() -> None:
    skipped = StageResult(stage="static", verdict=Verdict.SKIP, detail="left out")
    odd = StageResult(stage="check", verdict=Verdict.QUARANTINE, reason=Reason.HARNESS)
    late = StageResult(stage="timing", verdict=Verdict.FAIL, reason=Reason.CRASH)
    assert record(results=(skipped,)).ended is None
    assert record(results=(skipped, odd, late)).ended == odd


def test_facts_are_those_of_their_stage() -> None:
    made, checked = CompileFacts(arch="sm_90a"), CheckFacts(device="vgpu")
    found = record().with_result(StageResult(stage="compile", verdict=Verdict.PASS, facts=made))
    assert found.compiled == made and found.checked is None and found.timing is None
    assert found.with_result(StageResult(stage="check", verdict=Verdict.PASS, facts=checked)).checked == checked


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.QUARANTINE, Verdict.FAULT])
def test_a_stop_without_reason_does_not_construct(verdict: Verdict) -> None:
    with pytest.raises(ValidationError, match="needs a reason"):
        StageResult(stage="check", verdict=verdict)


def test_a_skip_without_sentence_does_not_construct() -> None:
    with pytest.raises(ValidationError, match="needs a sentence"):
        StageResult(stage="check", verdict=Verdict.SKIP)


def test_a_fault_is_ours_and_never_a_pass() -> None:
    broken = StageResult(stage="virtual", verdict=Verdict.FAULT, reason=Reason.HARNESS, detail="the executor died")
    assert record().with_result(broken).verdict is Verdict.FAULT


def test_records_are_frozen_and_closed() -> None:
    with pytest.raises(ValidationError):
        KERNEL.source = "y"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Candidate.model_validate({**KERNEL.model_dump(), "speedup": 3})


def test_measured_and_modelled_times_are_different_types() -> None:
    modelled = ModelledTime(us=3.0, gpu="H200")
    assert "modelled" in modelled.text()
    with pytest.raises(ValidationError):
        MeasuredTime.parse(modelled.text())


def test_what_cannot_be_read_says_what_is_wrong_and_where() -> None:
    assert Candidate.read(KERNEL.text()) == KERNEL
    assert Candidate.read('{"task": "softmax", "direction": "forward"}') == "source: Field required"
    assert str(Candidate.read(b"\xff{")).startswith("Invalid JSON: ")


def test_facts_are_told_apart_by_stage() -> None:
    result = StageResult(stage="compile", verdict=Verdict.PASS, facts=CompileFacts(arch="sm_90a"))
    assert StageResult.parse(result.text()) == result


def test_confinement_floor() -> None:
    assert Confined(achieved=("landlock", "seccomp", "uid", "net_ns")).form is ConfinementForm.OTHER_USER
    assert not Confined(achieved=("landlock", "seccomp"), missing=("uid: not permitted",)).at_floor


@pytest.mark.parametrize("part", ["", *sorted(FORMS[ConfinementForm.NAMESPACES])])
def test_without_another_user_every_namespace_is_needed(part: str) -> None:
    achieved = Confined(achieved=tuple(FORMS[ConfinementForm.NAMESPACES] - {part}))
    assert achieved.form is (None if part else ConfinementForm.NAMESPACES)
    assert achieved.at_floor is not bool(part)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_golden_records_still_load(path: Path) -> None:
    text = path.read_text()
    loaded = Record.parse(text)
    assert json.loads(loaded.text()).keys() >= json.loads(text).keys()
    assert loaded.key == path.stem.split("-")[-1], "a record's key never changes"


def test_there_are_golden_records() -> None:
    assert len(GOLDEN) >= 2


@pytest.mark.parametrize("model", [Record, Task, Finding])
def test_published_schema_is_current(model: type) -> None:
    published = json.loads((ROOT / "docs" / "schema" / f"{model.__name__.lower()}.json").read_text())
    assert published == TypeAdapter(model).json_schema(), "run: python scripts/schema.py"
