"""Models over HTTP, against doubles: servers on the loopback that speak the providers' protocols from a script."""

import asyncio
import json
import socket
from typing import Any

import pytest
from tests.llm.doubles import CHAT, CODE, KEY, Dialect, Provider, Reply, reply

from warpsmith.llm import (
    EmptyText,
    FinishReason,
    LanguageModel,
    Malformed,
    ModelAnswer,
    ModelError,
    Patience,
    Prompt,
    RateLimited,
    Rejected,
    RequestFailed,
    ServerFailed,
    TimedOut,
    Unreachable,
    ask_all,
    open_ensemble,
    open_model,
)

ONCE = Patience(attempts=1)
SOON = Patience(attempts=3, first_s=0.01, longest_s=0.02)


def opened(dialect: Dialect, server: Provider, *settings: str, patience: Patience = ONCE) -> LanguageModel:
    return open_model(dialect.spec(server, *settings, "key_env=MY_SERVER_KEY"), patience=patience)


def outcome(model: LanguageModel, prompt: Prompt) -> ModelAnswer | ModelError:
    return ask_all([(model, prompt)])[0]


def test_an_answer_comes_with_what_it_took(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.stop)]
    answer = outcome(opened(dialect, server), prompt)
    assert isinstance(answer, ModelAnswer)
    assert (answer.text, answer.served, answer.finish) == (CODE, "served-1", FinishReason.STOP)
    assert (answer.input_tokens, answer.output_tokens) == (120, 30)
    assert answer.model == f"{dialect.name}:{dialect.model}"
    assert 0 < answer.seconds < 30


def test_the_request_holds_prompt_settings_and_key(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.stop)]
    outcome(opened(dialect, server, "max_tokens=777"), prompt)
    (request,) = server.requests
    sent = json.dumps(request.body)
    assert request.path == dialect.path  # with nothing after it: an address is logged, so no key may stand there
    assert sum(KEY in value for value in request.headers.values()) == 1
    assert prompt.system in sent and prompt.user in sent and "777" in sent
    assert KEY not in sent


def test_temperature_is_sent_where_a_model_takes_one(server: Provider, prompt: Prompt) -> None:
    server.script = [reply(CHAT.stop)]
    answer = outcome(opened(CHAT, server, "temperature=0.25"), prompt)
    assert isinstance(answer, ModelAnswer)
    assert answer.model == "openai-compatible:some-model,temperature=0.25"
    assert server.requests[0].body["temperature"] == 0.25


def test_a_cut_answer_says_so(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.length)]
    answer = outcome(opened(dialect, server), prompt)
    assert isinstance(answer, ModelAnswer)
    assert answer.finish is FinishReason.LENGTH and not answer.is_refused


def test_a_refusal_is_an_answer(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.refusal)]
    answer = outcome(opened(dialect, server, patience=SOON), prompt)
    assert isinstance(answer, ModelAnswer)
    assert answer.is_refused
    assert answer.text == "I cannot help with that."
    assert len(server.requests) == 1


def test_a_prompt_that_google_blocks_is_a_refusal(server: Provider, prompt: Prompt) -> None:
    from tests.llm.doubles import GOOGLE

    server.script = [reply({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}})]
    answer = outcome(opened(GOOGLE, server), prompt)
    assert isinstance(answer, ModelAnswer)
    assert answer.is_refused and answer.text == ""


def test_empty_text_is_asked_twice(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.empty)]
    error = outcome(opened(dialect, server, patience=SOON), prompt)
    assert isinstance(error, EmptyText | Malformed)
    assert len(server.requests) in (2, 3)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (reply({"error": {"message": "slow down"}}, 429), RateLimited),
        (reply({"error": {"message": "broken"}}, 500), ServerFailed),
        (reply({"error": {"message": "busy"}}, 503), ServerFailed),
        (reply({"error": {"message": f"wrong key {KEY}"}}, 401), Rejected),
        (reply({"error": {"message": "no such model"}}, 404), Rejected),
        (reply({"error": {"message": "too long"}}, 400), Rejected),
        (Reply(b"<html>not found</html>", 404, content_type="text/html"), Rejected),
        (Reply(b"", 302, (("location", "http://127.0.0.1:1/"),)), Malformed),
        (Reply(b'{"id": "x", "choi'), Malformed),
        (Reply(b"<html>hello</html>", content_type="text/html"), Malformed),
        (Reply(b"plain text", content_type="text/plain"), Malformed),
        (Reply(b""), Malformed),
        (Reply(b"\xff\xfe\x00\x01"), Malformed),
        (Reply(reset=True), Unreachable),
    ],
    ids=[
        "429",
        "500",
        "503",
        "401",
        "404",
        "400",
        "404-html",
        "redirect",
        "torn-json",
        "html",
        "text",
        "nothing",
        "not-utf8",
        "reset",
    ],
)
def test_each_failure_has_its_kind(
    dialect: Dialect, server: Provider, prompt: Prompt, bad: Reply, kind: type[RequestFailed]
) -> None:
    server.script = [bad]
    error = outcome(opened(dialect, server), prompt)
    assert type(error) is kind, error
    assert str(error).startswith(f"{dialect.name}:{dialect.model} ")
    assert KEY not in str(error)
    assert error.__cause__ is None and error.__context__ is None


@pytest.mark.parametrize(
    "body", [{}, [], "text", None, 7, {"error": "no"}, {"choices": [], "content": 3, "output": {}}]
)
def test_json_of_another_shape_is_malformed_or_empty(
    dialect: Dialect, server: Provider, prompt: Prompt, body: Any
) -> None:
    server.script = [reply(body)]
    assert isinstance(outcome(opened(dialect, server), prompt), Malformed | EmptyText)


def test_a_server_that_hangs_times_out(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [Reply(hang=True)]
    error = outcome(opened(dialect, server, "timeout_s=0.5"), prompt)
    assert isinstance(error, TimedOut)
    assert "0.5 s" in str(error)


def test_a_server_that_drips_times_out(server: Provider, prompt: Prompt) -> None:
    server.script = [reply(CHAT.stop, drip=True)]  # each byte comes in time, the whole never
    assert isinstance(outcome(opened(CHAT, server, "timeout_s=0.5"), prompt), TimedOut)


def test_nobody_listens(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        spec = f"{dialect.name}:{dialect.model},base_url=http://127.0.0.1:{port},key_env=MY_SERVER_KEY"
        assert isinstance(outcome(open_model(spec, patience=ONCE), prompt), Unreachable)


def test_a_passing_failure_is_asked_again(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply({}, 500), Reply(reset=True), reply(dialect.stop)]
    answer = outcome(opened(dialect, server, patience=SOON), prompt)
    assert isinstance(answer, ModelAnswer) and answer.text == CODE
    assert len(server.requests) == 3


def test_a_rejected_request_is_not_asked_again(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply({"error": {"message": "no"}}, 401), reply(dialect.stop)]
    assert isinstance(outcome(opened(dialect, server, patience=SOON), prompt), Rejected)
    assert len(server.requests) == 1


def test_a_retry_after_is_read(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    """How long it is obeyed is in test_patience.py."""
    server.script = [reply({}, 429, headers=(("retry-after", "1"),))]
    error = outcome(opened(dialect, server), prompt)
    assert isinstance(error, RequestFailed)
    assert error.retry_after_s == 1.0


def test_a_provider_has_so_many_places(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.stop)]
    server.delay_s = 0.1
    one = dialect.spec(server, "key_env=MY_SERVER_KEY", "concurrency=3")
    other = dialect.spec(server, "key_env=MY_SERVER_KEY", "concurrency=2", "max_tokens=99")
    models = list(open_ensemble(f"{one};{other}"))
    answers = ask_all([(model, prompt) for model in models * 4])
    assert all(isinstance(answer, ModelAnswer) for answer in answers)
    assert len(server.requests) == 8
    assert server.most_at_once == 2


def test_one_model_serves_many_event_loops(dialect: Dialect, server: Provider, prompt: Prompt) -> None:
    server.script = [reply(dialect.stop)]
    model = opened(dialect, server)
    for _ in range(3):
        assert asyncio.run(model.ask(prompt)).text == CODE


def test_a_cancelled_question_leaves_its_place(server: Provider, prompt: Prompt) -> None:
    server.script = [Reply(hang=True), reply(CHAT.stop)]

    async def scene() -> ModelAnswer:
        model = opened(CHAT, server, "concurrency=1")
        first = asyncio.create_task(model.ask(prompt))
        await asyncio.sleep(0.3)
        first.cancel()
        return await asyncio.wait_for(model.ask(prompt), 10)

    assert asyncio.run(scene()).text == CODE
