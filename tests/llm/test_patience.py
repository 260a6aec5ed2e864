"""Asking again: which failures, how often, how long. The models are scripts and the clock is a list."""

import asyncio

import pytest

from warpsmith.llm import (
    EmptyText,
    FinishReason,
    Malformed,
    ModelAnswer,
    Patience,
    PatientModel,
    Prompt,
    RateLimited,
    Rejected,
    RequestFailed,
    ScriptedModel,
    ServerFailed,
    TimedOut,
    Unreachable,
    ask_all,
)


def patient(model: ScriptedModel, slept: list[float], attempts: int = 5, share: float = 1.0) -> PatientModel:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return PatientModel(model, Patience(attempts=attempts, longest_s=5), sleep, lambda: share)


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        (RateLimited, 5),
        (ServerFailed, 5),
        (Unreachable, 5),
        (Malformed, 3),
        (TimedOut, 2),
        (EmptyText, 2),
        (Rejected, 1),
    ],
)
def test_each_kind_is_tried_so_often(kind: type[RequestFailed], times: int, prompt: Prompt) -> None:
    script, slept = ScriptedModel(lambda prompt: kind("m", "no")), list[float]()
    assert isinstance(ask_all([(patient(script, slept), prompt)])[0], kind)
    assert (len(script.asked), len(slept)) == (times, times - 1)


def test_pauses_double_up_to_the_longest(prompt: Prompt) -> None:
    slept: list[float] = []
    ask_all([(patient(ScriptedModel(lambda prompt: ServerFailed("m", "no")), slept, 6), prompt)])
    assert slept == [1, 2, 4, 5, 5]


def test_pauses_are_drawn(prompt: Prompt) -> None:
    slept: list[float] = []
    ask_all([(patient(ScriptedModel(lambda prompt: ServerFailed("m", "no")), slept, 3, share=0.0), prompt)])
    assert slept == [0.5, 1.0]


@pytest.mark.parametrize(("asked_s", "slept_s"), [(40.0, [40.0]), (0.1, [1.0]), (301.0, [])])
def test_a_provider_says_how_long(asked_s: float, slept_s: list[float], prompt: Prompt) -> None:
    slept: list[float] = []
    script = ScriptedModel([RateLimited("m", "slow down", asked_s), "code"])
    ask_all([(patient(script, slept), prompt)])
    assert slept == slept_s


def test_an_endless_number_of_attempts_does_not_overflow() -> None:
    assert Patience(attempts=10_000).pause_s(ServerFailed("m", "no"), 9_000, 1.0) == 60.0


def test_an_empty_answer_is_a_failure_and_an_empty_refusal_is_not(prompt: Prompt) -> None:
    empty = ModelAnswer(text=" \n", model="m", finish=FinishReason.LENGTH, output_tokens=9)
    refusal = ModelAnswer(text="", model="m", finish=FinishReason.REFUSAL)
    model = patient(ScriptedModel([empty, refusal]), [])
    assert asyncio.run(model.ask(prompt)) is refusal
    error = ask_all([(patient(ScriptedModel([empty, empty]), []), prompt)])[0]
    assert isinstance(error, EmptyText)
    assert "it ended by length after 9 tokens" in str(error) and "raise max_tokens" in str(error)
