"""Keys stay in the room: what is logged, recorded, shown, raised or given to a child never holds one.

The providers are doubles on the loopback, some of which send the key back on purpose.
"""

import logging
import traceback
from pathlib import Path

import pytest
from tests.llm.doubles import CHAT, KEY, Dialect, Provider, Reply, reply

from warpsmith.isolation import Policy, ProcessLimits, run, system_paths
from warpsmith.llm import (
    MissingKey,
    ModelAnswer,
    ModelError,
    Patience,
    Prompt,
    TranscriptWriter,
    ask_all,
    key_variables,
    open_model,
    parse_model,
)

ONCE = Patience(attempts=2, first_s=0.01)
SCENES = {
    "answer": None,
    "echo": None,
    "rejected": reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401),
    "server error": reply({"error": {"message": f"while serving {KEY}"}}, 500),
    "malformed": Reply(f'{{"half": "{KEY}'.encode()),
    "wrong type": Reply(f"hello {KEY}".encode(), content_type="text/plain"),
    "reset": Reply(reset=True),
    "redirect": Reply(b"", 307, (("location", f"http://127.0.0.1:9/{KEY}"),)),
}


@pytest.mark.parametrize("scene", SCENES)
def test_no_log_line_recording_or_error_holds_the_key(
    scene: str, dialect: Dialect, server: Provider, prompt: Prompt, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    echo = Reply(reply(dialect.stop).body.replace(b"__global__", KEY.encode()))
    server.script = [SCENES[scene] or (echo if scene == "echo" else reply(dialect.stop))]
    with caplog.at_level(logging.DEBUG):
        model = open_model(dialect.spec(server, "key_env=MY_SERVER_KEY"), patience=ONCE)
        result = ask_all([(TranscriptWriter(model, tmp_path / "traffic.jsonl"), prompt)])[0]
    assert server.requests, "the scene was played"
    assert any(record.name == "httpx2" for record in caplog.records) or scene == "reset", "the libraries do log"
    logged = "\n".join(f"{record.getMessage()} {record.args!r}" for record in caplog.records)
    recorded = (tmp_path / "traffic.jsonl").read_text()
    assert prompt.user in recorded
    for text in (logged, recorded, repr(result), str(result), repr(model), repr(vars(model)), _trace(result)):
        assert KEY not in text


def _trace(result: ModelAnswer | ModelError) -> str:
    """An error as a debugger's printout shows it, with the variables of every frame."""
    if isinstance(result, ModelAnswer):
        return result.model_dump_json()
    return "".join(traceback.TracebackException.from_exception(result, capture_locals=True).format())


def test_an_answer_that_holds_the_key_is_cleaned(server: Provider, prompt: Prompt) -> None:
    server.script = [Reply(reply(CHAT.stop).body.replace(b"__global__", KEY.encode()))]
    result = ask_all([(open_model(CHAT.spec(server, "key_env=MY_SERVER_KEY")), prompt)])[0]
    assert isinstance(result, ModelAnswer)
    assert result.text.startswith("[key removed]")


def test_no_child_gets_a_key(tmp_path: Path) -> None:
    policy = Policy(read=system_paths(), limits=ProcessLimits(wall_s=20))
    outcome = run(["sh", "-c", "env; cat /proc/self/environ; cat /proc/$PPID/environ; true"], policy)
    assert outcome.ok and b"PATH=" in outcome.stdout
    assert KEY.encode() not in outcome.stdout + outcome.stderr


@pytest.mark.parametrize("name", ["openai:gpt-5", "anthropic:claude-opus-5", "google:gemini-2.5-pro", "openrouter:a/b"])
def test_a_missing_key_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = parse_model(name).provider
    for variable in row.keys:
        monkeypatch.setenv(variable, "  ")
    with pytest.raises(MissingKey, match=f"{name} needs a key, and {' or '.join(row.keys)} is not set") as caught:
        open_model(name)
    assert caught.value.exit_code == 2


def test_a_named_variable_must_hold_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_SERVER_KEY")
    with pytest.raises(MissingKey, match="MY_SERVER_KEY is not set"):
        open_model("vllm:qwen,key_env=MY_SERVER_KEY")


@pytest.mark.parametrize("broken", ["two words", "schlüssel", "a\nb"])
def test_what_cannot_be_a_key_is_not_shown(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", broken)
    with pytest.raises(MissingKey, match="OPENAI_API_KEY holds characters") as caught:
        open_model("openai:gpt-5")
    assert broken not in str(caught.value)


def test_the_second_variable_of_a_row_serves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")
    assert open_model("google:gemini-2.5-pro").name == "google:gemini-2.5-pro"


def test_a_server_without_a_key_gets_no_other_key(server: Provider, prompt: Prompt) -> None:
    server.script = [reply(CHAT.stop)]
    assert isinstance(ask_all([(open_model(CHAT.spec(server)), prompt)])[0], ModelAnswer)
    assert not [value for value in server.requests[0].headers.values() if KEY in value]


def test_every_row_says_where_its_key_is() -> None:
    assert {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"} <= set(key_variables())
