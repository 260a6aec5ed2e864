"""Models together, scripts, and many questions at once; the models are fakes that the package ships."""

import asyncio
import subprocess
import sys

import pytest

from warpsmith.base import UsageError
from warpsmith.llm import (
    Ensemble,
    LanguageModel,
    MissingLibrary,
    ModelAnswer,
    Prompt,
    Rejected,
    ScriptedModel,
    ScriptEnded,
    ask_all,
    open_ensemble,
    open_model,
)

HEAVY = {"pydantic_ai", "openai", "anthropic", "google", "httpx2", "genai_prices", "torch", "numpy"}


def test_models_are_found_by_name() -> None:
    one, two = ScriptedModel([], "one"), ScriptedModel([], "two")
    ensemble = Ensemble([one, two])
    assert (ensemble["two"], list(ensemble), len(ensemble), ensemble.names) == (two, [one, two], 2, ("one", "two"))
    with pytest.raises(KeyError, match="three"):
        ensemble["three"]


def test_no_model_is_an_ensemble_too() -> None:
    assert not Ensemble() and list(Ensemble()) == []


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="Two models have one name"):
        Ensemble([ScriptedModel([]), ScriptedModel([])])


def test_an_ensemble_is_opened_from_its_text() -> None:
    ensemble = open_ensemble("openai:gpt-5,weight=2;openai:gpt-5,effort=high;ollama:qwen2.5-coder:32b")
    assert ensemble.names == ("openai:gpt-5", "openai:gpt-5,effort=high", "ollama:qwen2.5-coder:32b")
    assert ensemble.weights == (2.0, 1.0, 1.0)
    assert all(isinstance(model, LanguageModel) for model in ensemble)


def test_a_script_answers_in_turn_and_ends(prompt: Prompt) -> None:
    model = ScriptedModel(["one", Rejected("m", "no"), ModelAnswer(text="two", model="other")])
    outcomes = [ask_all([(model, prompt)])[0] for _ in range(4)]
    assert [type(one) for one in outcomes] == [ModelAnswer, Rejected, ModelAnswer, ScriptEnded]
    assert "was asked 4 times; its script has 3 answers" in str(outcomes[3])
    assert model.asked == [prompt] * 4


def test_a_script_may_be_a_function(prompt: Prompt) -> None:
    model = ScriptedModel(lambda asked: asked.user.upper())
    assert asyncio.run(model.ask(prompt)).text == "MAKE LAYERNORM FAST."


def test_outcomes_stand_where_their_questions_stood(prompt: Prompt) -> None:
    good, bad = ScriptedModel(lambda p: "code", "good"), ScriptedModel(lambda p: Rejected("bad", "no"), "bad")
    assert [type(one) for one in ask_all([(good, prompt), (bad, prompt), (good, prompt)])] == [
        ModelAnswer,
        Rejected,
        ModelAnswer,
    ]


def test_a_key_of_a_prompt_is_its_content(prompt: Prompt) -> None:
    twin = Prompt(system=prompt.system, user=prompt.user, kind=prompt.kind)
    others = [prompt.model_copy(update={field: "x"}) for field in ("system", "user", "kind")]
    moved = Prompt(system=prompt.system + prompt.user, user="", kind=prompt.kind)
    assert twin.key == prompt.key
    assert len({one.key for one in (prompt, moved, *others)}) == 5


def test_the_room_is_light_until_a_model_is_opened() -> None:
    code = f"import sys, warpsmith.llm; print(sorted({HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_missing_libraries_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.direct", None)
    with pytest.raises(MissingLibrary, match=r"pip install 'warpsmith\[models\]'"):
        open_model("openai:gpt-5")
