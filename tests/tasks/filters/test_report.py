"""The report as data: its JSON form, what passed means, a model's opinion in place of the skipped one."""

import subprocess
import sys

import pytest

from warpsmith.records import Origin
from warpsmith.tasks.filters import (
    Filter,
    FilterReport,
    FilterResult,
    Measure,
    Sense,
    TaskOpinion,
    add_opinion,
    apply_filters,
)
from warpsmith.tasks.filters.opinion import opinion_prompt, parse_opinion
from warpsmith.tasks.suite import suite_program


def result(passed: bool, value: float = 1.0) -> FilterResult:
    return FilterResult(
        filter=Filter.OUTPUT_RANGE,
        passed=passed,
        value=value,
        threshold=0.01,
        sense=Sense.AT_LEAST,
        detail="the largest magnitude of out is 1",
        measures=(Measure(what="out", value=value),),
    )


@pytest.mark.parametrize("value", [1.0, float("inf"), 0.0])
def test_a_report_survives_its_json(value: float) -> None:
    report = FilterReport(task="t", origin=Origin.SUITE, results=(result(True, value),))
    assert FilterReport.parse(report.text()) == report


def test_nan_survives_its_json() -> None:
    report = FilterReport(task="t", origin=Origin.SUITE, results=(result(False, float("nan")),))
    found = FilterReport.parse(report.text()).results[0].value
    assert found != found


def test_one_objection_fails_the_task() -> None:
    report = FilterReport(task="t", origin=Origin.SUITE, results=(result(True), result(False)))
    assert not report.passed
    assert report.failed == (result(False),)
    assert report.find_result(Filter.GRADIENTS) is None


def test_without_a_model_the_opinion_is_skipped_with_the_reason() -> None:
    skip = apply_filters(suite_program("softmax")).skipped[-1]
    assert skip.filter is Filter.OPINION
    assert "--models" in skip.reason


@pytest.mark.parametrize(
    ("sound", "confidence", "passed"), [(True, 0.9, True), (False, 0.9, False), (False, 0.3, True)]
)
def test_an_opinion_takes_the_place_of_the_skip(sound: bool, confidence: float, passed: bool) -> None:
    program = suite_program("softmax")
    report = add_opinion(
        apply_filters(program),
        program.task,
        lambda task: TaskOpinion(sound=sound, confidence=confidence, detail=task.name),
    )
    found = report.find_result(Filter.OPINION)
    assert found is not None
    assert (found.passed, found.detail) == (passed, "softmax")
    assert Filter.OPINION not in {skip.filter for skip in report.skipped}


def test_no_judgement_is_told_in_the_place_of_one() -> None:
    program = suite_program("softmax")
    report = add_opinion(apply_filters(program), program.task, lambda _task: "it is tired")
    assert report.passed and report.skipped[-1].reason == "it is tired"
    assert [skip.filter for skip in report.skipped].count(Filter.OPINION) == 1


@pytest.mark.parametrize(
    ("answer", "sound"),
    [
        ('{"sound": true, "confidence": 0.9, "detail": "fine"}', True),
        ('I think {so}:\n```json\n{"sound": false, "confidence": 1, "detail": "x - x is {zero}"}\n```', False),
    ],
)
def test_a_judgement_is_found_in_an_answer(answer: str, sound: bool) -> None:
    found = parse_opinion(answer)
    assert isinstance(found, TaskOpinion) and found.sound is sound


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("it is sound", "no JSON object"),
        ('{"sound": true, "confidence": 7, "detail": "x"}', "confidence"),
        ("{" * 9999, "no JSON"),
    ],
)
def test_what_is_no_judgement_says_why(answer: str, why: str) -> None:
    found = parse_opinion(answer)
    assert isinstance(found, str) and why in found


def test_a_question_has_the_function() -> None:
    asked = opinion_prompt(suite_program("softmax").task)
    assert "Task softmax" in asked and "def forward" in asked


def test_the_models_load_no_torch() -> None:
    code = "import sys, warpsmith.tasks.filters; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
