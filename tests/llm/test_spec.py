"""The text of `--models`: what it means, and what is said about a slip."""

import pytest

from warpsmith.base import UsageError
from warpsmith.llm import PROVIDERS, Price, Settings, parse_model, parse_models


def test_a_list_of_models() -> None:
    one, two = parse_models("openai:gpt-5, temperature=0.7 ;anthropic:claude-opus-5,weight=2,effort=high;")
    assert (one.provider.name, one.model, one.settings.temperature) == ("openai", "gpt-5", 0.7)
    assert (two.settings.weight, two.settings.effort) == (2.0, "high")


def test_a_name_holds_what_changes_an_answer_and_nothing_else() -> None:
    text = "vllm:qwen2.5:32b,max_tokens=9,timeout_s=3,temperature=0,base_url=http://h:1/v1,key_env=K,usd_per_mtok=1"
    assert parse_model(text).name == "vllm:qwen2.5:32b,temperature=0.0,max_tokens=9"


def test_models_that_differ_in_their_address_have_two_names() -> None:
    specs = parse_models("vllm:qwen;vllm:qwen,base_url=http://other:8000/v1;vllm:qwen,base_url=http://third:8000/v1")
    assert [spec.name for spec in specs] == ["vllm:qwen", "vllm:qwen#2", "vllm:qwen#3"]


def test_settings_come_from_the_text_before_the_base() -> None:
    spec = parse_model("openai:gpt-5,timeout_s=9", Settings(timeout_s=5, max_tokens=100))
    assert (spec.settings.timeout_s, spec.settings.max_tokens) == (9, 100)


@pytest.mark.parametrize(("text", "price"), [("0", (0, 0)), ("2", (2, 2)), ("1.25/10", (1.25, 10))])
def test_a_price_is_one_number_or_two(text: str, price: tuple[float, float]) -> None:
    found = parse_model(f"vllm:m,usd_per_mtok={text}").settings.usd_per_mtok
    assert found == Price(input_usd=price[0], output_usd=price[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The list of models is empty"),
        (" ; ", "The list of models is empty"),
        ("gpt-5", "'gpt-5' is not PROVIDER:MODEL. Write for example openai:gpt-5"),
        ("openai:", "is not PROVIDER:MODEL"),
        ("opnai:gpt-5", "'opnai' does not exist. Did you mean openai\\?"),
        ("zzz:gpt-5", "'zzz' does not exist. Known are openai"),
        ("openai:m,temprature=1", "'temprature' of m does not exist. Did you mean temperature\\?"),
        ("openai:m,temperature", "temperature of m has no value"),
        ("openai:m,temperature=hot", "temperature of m is 'hot'"),
        ("openai:m,temperature=3", "temperature of m is '3': Input should be less than or equal to 2"),
        ("openai:m,temperature=nan", "temperature of m is 'nan'"),
        ("openai:m,temperature=1,temperature=1", "temperature of m is given twice"),
        ("openai:m,max_tokens=0", "max_tokens of m is '0'"),
        ("openai:m,max_tokens=1.5", "max_tokens of m is '1.5'"),
        ("openai:m,timeout_s=0", "timeout_s of m is '0'"),
        ("openai:m,concurrency=-1", "concurrency of m is '-1'"),
        ("openai:m,effort=huge", "effort of m is 'huge'"),
        ("openai:m,weight=0", "weight of m is '0'"),
        ("openai:m,usd_per_mtok=1/2/3", "usd_per_mtok of m is '1/2/3': give one number, or IN/OUT"),
        ("openai:m,usd_per_mtok=-1", "usd_per_mtok of m is '-1'"),
        ("openai:m,usd_per_mtok=free", "usd_per_mtok of m is 'free'"),
        ("openai:m,base_url=localhost", "give a whole address"),
        ("openai-compatible:m", "needs an address: openai-compatible:m,base_url=http"),
        ("openai:m;openai:m", "openai:m is listed twice. To ask it more often, write weight=2"),
    ],
)
def test_a_slip_is_named_with_the_way_out(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_models(text)


@pytest.mark.parametrize("text", ["openai:m,api_key=sk-SECRET", "openai:m,key=sk-SECRET", "openai:m,Token=sk-SECRET"])
def test_a_key_on_the_command_line_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="key_env=NAME") as caught:
        parse_models(text)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", ["sk-SECRET", "AIzaSySECRETx", "SECRET WORDS"])
def test_a_key_in_place_of_its_variable_is_not_repeated(value: str) -> None:
    with pytest.raises(UsageError, match="give the name of a variable, in capitals") as caught:
        parse_models(f"openai:m,key_env={value}")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://me:SECRET@host/v1", "http://host/v1?key=SECRET"])
def test_an_address_holds_no_secret(url: str) -> None:
    with pytest.raises(UsageError, match="neither a password nor a query") as caught:
        parse_models(f"openai:m,base_url={url}")
    assert "SECRET" not in str(caught.value)


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in PROVIDERS}) == len(PROVIDERS)
