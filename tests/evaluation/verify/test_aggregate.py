"""Evidence adds up: weights from counts, a threshold no right kernel reaches, and signs that never stop alone."""

import math

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation.verify.aggregate import (
    Signal,
    Weight,
    Weights,
    decide,
    load_weights,
    shipped_weights,
    threshold,
    weight_of,
    weights_path,
)

WEIGHTS = Weights(
    prior=0.0,
    verifiers={"static": Weight(alarm=9.0, clear=0.0), "virtual": Weight(alarm=4.0, clear=-3.0)},
    stop=2.0,
)


def said(verifier: str, objects: bool, confidence: float = 1.0) -> Signal:
    return Signal(verifier=verifier, objects=objects, confidence=confidence)


def test_an_objection_stops_and_silence_lets_go() -> None:
    assert not decide([said("virtual", True)], WEIGHTS).go
    assert decide([said("virtual", False)], WEIGHTS).go
    assert decide([said("virtual", False)], WEIGHTS).wrong == pytest.approx(1 / (1 + math.exp(3)))


def test_a_sign_alone_never_stops_whatever_its_weight() -> None:
    decision = decide([said("static", True)], WEIGHTS)
    assert decision.go and decision.wrong > 0.99
    assert not decide([said("static", True), said("virtual", True)], WEIGHTS).go


def test_what_does_not_compile_stops_and_praise_brings_nothing_back() -> None:
    assert not decide([said("compile", True)], WEIGHTS).go
    praised = WEIGHTS.model_copy(
        update={"verifiers": {**WEIGHTS.verifiers, "review_memory": Weight(alarm=1, clear=-9)}}
    )
    assert not decide([said("virtual", True), said("review_memory", False)], praised).go
    assert decide([said("virtual", False), said("review_memory", True)], praised).go


def test_an_unsure_or_unknown_verifier_counts_for_less() -> None:
    assert decide([said("virtual", True, 0.4)], WEIGHTS).go
    assert decide([said("oracle", True)], WEIGHTS) == decide([said("oracle", False)], WEIGHTS)


def test_weights_follow_counts_and_never_prove_a_never() -> None:
    sure, vague = weight_of(99, 100, 0, 100), weight_of(60, 100, 30, 100)
    assert sure.alarm > vague.alarm > 0 > vague.clear > sure.clear
    assert math.isfinite(weight_of(10, 10, 0, 0).alarm)
    useless = weight_of(10, 100, 50, 100)
    assert useless.alarm == 0.0 and useless.clear == 0.0


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        ([-3.0, 1.0], [0.5, 3.0, 5.0], 2.0),
        ([1.0], [0.5], 2.0),
        ([], [1.0, 4.0], 1.0),
        ([], [], 0.0),
        ([0.0], [math.inf], 1.0),
    ],
    ids=["between", "nothing above", "no right ones", "empty", "only certain ones"],
)
def test_the_threshold_is_above_every_right_kernel(right: list[float], wrong: list[float], expected: float) -> None:
    assert threshold(right, wrong) == expected


@pytest.mark.usefixtures("home")
def test_the_last_calibration_of_this_machine_comes_before_the_shipped_one() -> None:
    assert load_weights() == shipped_weights()
    weights_path().parent.mkdir(parents=True)
    weights_path().write_text(WEIGHTS.text())
    assert load_weights() == WEIGHTS
    weights_path().write_text("{}")
    with pytest.raises(UsageError, match=r"holds no weights .*warpsmith calibrate"):
        load_weights()


def test_shipped_weights_stop_what_a_compiler_or_the_virtual_gpu_fails_and_let_the_rest_go() -> None:
    weights = shipped_weights()
    clear = [said("static", False), said("compile", False), said("virtual", False)]
    assert decide(clear, weights).go
    assert not decide([said("static", False), said("compile", True)], weights).go
    assert not decide([*clear[:2], said("virtual", True)], weights).go
