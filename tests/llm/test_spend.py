"""Dollars: the budget is held before a request is sent, whatever happens to it. The provider is a double."""

import asyncio
import logging

import pytest
from tests.llm.doubles import CHAT, Provider, Reply, reply

from warpsmith.base import UsageError
from warpsmith.llm import (
    BudgetSpent,
    MeteredModel,
    ModelAnswer,
    ModelError,
    Patience,
    Prompt,
    RateLimited,
    Rejected,
    ScriptedModel,
    Spend,
    TimedOut,
    UnknownPrice,
    ask_all,
    ask_many,
    open_model,
    parse_model,
)
from warpsmith.llm.prices import Tariff


def costing(usd: float | None) -> ModelAnswer:
    return ModelAnswer(text="code", model="m", usd=usd)


def metered(spend: Spend, line: ModelAnswer | ModelError, bound: float | None = 1.0) -> MeteredModel:
    return MeteredModel(ScriptedModel(lambda prompt: line), spend, lambda prompt: bound)


def test_what_an_answer_cost_is_settled(prompt: Prompt) -> None:
    spend = Spend(10)
    ask_all([(metered(spend, costing(0.25)), prompt)] * 3)
    assert (spend.settled_usd, spend.reserved_usd, spend.left_usd, spend.requests) == (0.75, 0.0, 9.25, 3)


def test_a_request_that_could_pass_the_budget_is_not_made(prompt: Prompt) -> None:
    spend = Spend(2.5)
    script = ScriptedModel(lambda prompt: costing(1.0))
    model = MeteredModel(script, spend, lambda prompt: 1.0)
    outcomes = [ask_all([(model, prompt)])[0] for _ in range(4)]
    assert [type(one) for one in outcomes] == [ModelAnswer, ModelAnswer, BudgetSpent, BudgetSpent]
    assert len(script.asked) == 2 and spend.spent_usd == 2.0
    assert "may cost 1.0000 dollars; 0.5000 are left of the budget of 2.5" in str(outcomes[2])


def test_a_resumed_run_goes_on_from_what_it_spent(prompt: Prompt) -> None:
    outcome = ask_all([(metered(Spend(5.0, settled_usd=4.5), costing(0.1)), prompt)])[0]
    assert isinstance(outcome, BudgetSpent)


def test_a_budget_of_zero_makes_no_request_even_a_free_one(prompt: Prompt) -> None:
    script = ScriptedModel(["code"])
    outcome = ask_all([(MeteredModel(script, Spend(0), lambda prompt: 0.0), prompt)])[0]
    assert isinstance(outcome, BudgetSpent) and script.asked == []


def test_requests_at_once_never_pass_the_budget(prompt: Prompt) -> None:
    spend = Spend(1.0)
    flying = most = 0

    class Slow:
        name = "slow"

        async def ask(self, prompt: Prompt) -> ModelAnswer:
            nonlocal flying, most
            flying += 1
            most = max(most, flying)
            await asyncio.sleep(0.01)
            flying -= 1
            return costing(0.1)

    model = MeteredModel(Slow(), spend, lambda prompt: 0.3)
    outcomes = asyncio.run(ask_many([(model, prompt)] * 20))
    answered = [one for one in outcomes if isinstance(one, ModelAnswer)]
    assert most == 3, "as many at once as their bounds allow"
    assert len(answered) == 8 and spend.spent_usd == pytest.approx(0.8)
    assert all(isinstance(one, BudgetSpent) for one in outcomes if not isinstance(one, ModelAnswer))


@pytest.mark.parametrize(
    ("error", "doubtful"), [(TimedOut("m", "late"), 1.0), (RateLimited("m", "slow down"), 0.0)], ids=["timeout", "429"]
)
def test_a_failure_that_may_be_billed_counts_in_full(error: ModelError, doubtful: float, prompt: Prompt) -> None:
    spend = Spend(10)
    ask_all([(metered(spend, error), prompt)])
    assert (spend.doubtful_usd, spend.settled_usd, spend.reserved_usd) == (doubtful, 0.0, 0.0)


def test_a_cancelled_request_counts_in_full(prompt: Prompt) -> None:
    spend = Spend(10)

    class Endless:
        name = "endless"

        async def ask(self, prompt: Prompt) -> ModelAnswer:
            await asyncio.sleep(60)
            return costing(0.0)

    async def scene() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(MeteredModel(Endless(), spend, lambda prompt: 2.0).ask(prompt), 0.05)

    asyncio.run(scene())
    assert (spend.doubtful_usd, spend.reserved_usd) == (2.0, 0.0)


def test_an_answer_without_a_count_of_tokens_costs_its_bound(prompt: Prompt) -> None:
    spend = Spend(10)
    (answer,) = ask_all([(metered(spend, costing(None)), prompt)])
    assert spend.doubtful_usd == answer.usd == 1.0


def test_one_purse_serves_many_event_loops(prompt: Prompt) -> None:
    spend = Spend(1.0)
    for _ in range(3):
        ask_all([(metered(spend, costing(0.1), bound=0.5), prompt)] * 2)
    assert spend.spent_usd == pytest.approx(0.6)


def test_each_attempt_over_the_wire_is_paid(server: Provider, prompt: Prompt) -> None:
    server.script = [Reply(b"{"), reply({}, 500), reply(CHAT.stop)]
    spend = Spend(5)
    model = open_model(
        CHAT.spec(server, "usd_per_mtok=1000/10000", "max_tokens=100"),
        spend=spend,
        patience=Patience(attempts=3, first_s=0.01),
    )
    answer = ask_all([(model, prompt)])[0]
    assert isinstance(answer, ModelAnswer)
    assert spend.settled_usd == pytest.approx(120e-6 * 1000 + 30e-6 * 10000)
    bound = (len(prompt.system) + len(prompt.user) + 64) * 1e-3 + 100 * 1e-2
    assert spend.doubtful_usd == pytest.approx(bound), "the malformed one; the 500 costs nothing"
    assert answer.usd == pytest.approx(spend.spent_usd), "what is kept with the answer is all it took"


def test_a_failure_says_what_it_cost(server: Provider, prompt: Prompt) -> None:
    server.script = [reply(CHAT.empty), Reply(b"{"), reply({}, 400)]
    spend = Spend(5)
    spec = CHAT.spec(server, "usd_per_mtok=1000/10000", "max_tokens=100")
    model = open_model(spec, spend=spend, patience=Patience(attempts=3, first_s=0.01))
    (error,) = ask_all([(model, prompt)])
    assert isinstance(error, Rejected) and len(server.requests) == 3
    assert error.usd == pytest.approx(spend.spent_usd) and spend.settled_usd > 0 and spend.doubtful_usd > 0


def test_nothing_is_sent_once_the_budget_is_spent(server: Provider, prompt: Prompt) -> None:
    server.script = [reply(CHAT.stop)]
    model = open_model(CHAT.spec(server, "usd_per_mtok=1000", "max_tokens=100"), spend=Spend(0.05))
    assert isinstance(ask_all([(model, prompt)])[0], BudgetSpent)
    assert server.requests == []


def test_the_bound_is_above_any_count_of_tokens() -> None:
    tariff = Tariff.of(parse_model("vllm:m,usd_per_mtok=1/1"))
    prompt = Prompt(system="", user="é" * 100, kind="propose")
    bound = tariff.bound_usd(prompt, 50)
    assert bound is not None and bound * 1e6 >= 200 + 50


@pytest.mark.parametrize(
    "name", ["openai:gpt-5", "openai-chat:gpt-5", "anthropic:claude-opus-5", "google:gemini-2.5-pro"]
)
def test_listed_models_have_a_price(name: str) -> None:
    usd = Tariff.of(parse_model(name)).usd(1_000_000, 1_000_000)
    assert usd is not None and 0.1 < usd < 1000


def test_what_was_read_from_a_cache_costs_less() -> None:
    tariff = Tariff.of(parse_model("openai:gpt-5"))
    whole, cached = tariff.usd(100_000, 10), tariff.usd(100_000, 10, 90_000)
    assert whole is not None and cached is not None and 0 < cached < whole


def test_a_price_that_is_given_goes_before_the_list() -> None:
    assert Tariff.of(parse_model("openai:gpt-5,usd_per_mtok=7")).usd(1_000_000, 0) == 7


def test_an_address_finds_the_price_of_its_provider() -> None:
    spec = parse_model("openai-compatible:deepseek-chat,base_url=https://api.deepseek.com/v1")
    assert Tariff.of(spec).usd(1000, 1000) is not None


def test_a_local_model_is_free() -> None:
    assert Tariff.of(parse_model("ollama:qwen2.5-coder:32b")).usd(1000, 1000) == 0.0


def test_an_unknown_price_is_said_once(caplog: pytest.LogCaptureFixture, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(CHAT.stop)]
    spend = Spend()
    with caplog.at_level(logging.WARNING, "warpsmith"):
        model = open_model(CHAT.spec(server), spend=spend)
        answers = ask_all([(model, prompt)] * 3)
    assert [isinstance(one, ModelAnswer) and one.usd for one in answers] == [None] * 3
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "usd_per_mtok=IN/OUT" in said[0]
    assert (spend.unpriced, spend.spent_usd) == (3, 0.0)


def test_an_unknown_price_cannot_hold_a_budget() -> None:
    with pytest.raises(
        UnknownPrice, match=r"budget of 5 dollars cannot be held\. Give it: openai:nobody-knows,usd_per"
    ):
        open_model("openai:nobody-knows", spend=Spend(5))


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf")])
def test_a_budget_is_a_number_from_zero_up(budget: float) -> None:
    with pytest.raises(UsageError, match="budget"):
        Spend(budget)
