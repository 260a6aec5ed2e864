"""Record and replay: any traffic again without key or network, and what is said when it does not fit."""

import asyncio
import json
import logging
import os
from pathlib import Path

import pytest
from tests.llm.doubles import CHAT, CODE, Provider, reply

from warpsmith.base import MachineError, UsageError
from warpsmith.llm import (
    Ensemble,
    EnsembleMember,
    ModelAnswer,
    ModelError,
    Prompt,
    Replayer,
    ReplayMismatch,
    RequestFailed,
    ScriptedModel,
    TranscriptWriter,
    ask_all,
    errors as tree,
    key_variables,
    open_model,
)

KINDS = [one for one in vars(tree).values() if isinstance(one, type) and issubclass(one, ModelError)]


def ask(text: str = "Make it fast.\nUse shared memory.\nAnswer with code.", kind: str = "propose") -> Prompt:
    return Prompt(system="You write CUDA.", user=text, kind=kind)


def test_a_replay_needs_neither_key_nor_network(
    server: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [reply(CHAT.stop)]
    model = TranscriptWriter(open_model(CHAT.spec(server, "key_env=MY_SERVER_KEY")), tmp_path / "run.jsonl")
    (spoken,) = ask_all([(model, ask())])
    for variable in (*key_variables(), "MY_SERVER_KEY"):
        monkeypatch.delenv(variable)
    again = Replayer(tmp_path / "run.jsonl")
    assert ask_all([(again, ask())]) == [spoken]
    assert isinstance(spoken, ModelAnswer) and spoken.text == CODE
    assert len(server.requests) == 1
    assert again.name == model.name == "openai-compatible:some-model"


def test_the_same_prompt_gives_its_answers_in_order(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = TranscriptWriter(ScriptedModel(["first", "second"]), path)
    for _ in range(2):
        asyncio.run(recorder.ask(ask()))
    model = Replayer(path)
    assert [asyncio.run(model.ask(ask())).text for _ in range(2)] == ["first", "second"]
    with pytest.raises(ReplayMismatch, match="answers a propose prompt 2 times, and all are used"):
        asyncio.run(model.ask(ask()))


@pytest.mark.parametrize(
    "kind", [one for one in vars(tree).values() if isinstance(one, type)], ids=lambda k: k.__name__
)
def test_each_failure_comes_back_as_itself(kind: type[Exception], tmp_path: Path) -> None:
    if not issubclass(kind, ModelError):
        return
    error = kind("m", "it failed") if issubclass(kind, RequestFailed) else kind("it failed")
    path = tmp_path / "run.jsonl"
    ask_all([(TranscriptWriter(ScriptedModel([error]), path), ask())])
    (again,) = ask_all([(Replayer(path), ask())])
    assert type(again) is kind and str(again) == str(error)


def test_an_ensemble_comes_back_with_names_and_weights(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first, second = ScriptedModel(lambda p: "one", "first"), ScriptedModel(lambda p: "two", "second")
    recorded = Ensemble([EnsembleMember(first, 3.0), second]).record_to(path)
    ask_all([(model, ask()) for model in recorded])
    again = Ensemble.replay_from(path)
    assert (again.names, again.weights) == (("first", "second"), (3.0, 1.0))
    assert [
        one.text for one in ask_all([(again["second"], ask()), (again["first"], ask())]) if isinstance(one, ModelAnswer)
    ] == [
        "two",
        "one",
    ]


def test_a_mismatch_says_where_the_prompts_part(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorder = TranscriptWriter(ScriptedModel(lambda p: "code"), path)
    ask_all([(recorder, ask("Something else.")), (recorder, ask()), (recorder, ask("Make it\nright", "review"))])
    changed = ask("Make it fast.\nUse registers.\nAnswer with code.")
    with pytest.raises(ReplayMismatch) as caught:
        asyncio.run(Replayer(path).ask(changed))
    said = str(caught.value)
    assert "does not hold a propose prompt" in said and "on line 3" in said
    assert "line 2 of its user text: recorded 'Use shared memory.', asked 'Use registers.'" in said


def test_a_mismatch_in_length_is_one_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask_all([(TranscriptWriter(ScriptedModel(["code"]), path), ask("a\nb"))])
    with pytest.raises(ReplayMismatch, match="line 3 of its user text: recorded no such line, asked 'c'"):
        asyncio.run(Replayer(path).ask(ask("a\nb\nc")))


def test_a_kind_that_was_never_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask_all([(TranscriptWriter(ScriptedModel(["code"]), path), ask())])
    with pytest.raises(ReplayMismatch, match="has no review prompt left"):
        asyncio.run(Replayer(path).ask(ask(kind="review")))


def test_another_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask_all([(TranscriptWriter(ScriptedModel(["code"], "one"), path), ask())])
    with pytest.raises(ReplayMismatch, match="holds this prompt for one; two was asked"):
        asyncio.run(Replayer(path, "two").ask(ask()))


def test_a_killed_writer_loses_its_last_line_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.jsonl"
    ask_all([(TranscriptWriter(ScriptedModel(lambda p: "code"), path), ask(str(place))) for place in range(3)])
    path.write_bytes(path.read_bytes()[:-20])
    with caplog.at_level(logging.WARNING):
        model = Replayer(path)
    assert "half a line" in caplog.text
    assert asyncio.run(model.ask(ask("1"))).text == "code"
    ask_all([(TranscriptWriter(ScriptedModel(["more"]), path), ask("2"))])  # a resumed run goes on in the same file
    assert asyncio.run(Replayer(path).ask(ask("2"))).text == "more"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n", "Line 1 of .* is not part of a recording"),
        (b"int main() {}\n", "Line 1 of .* is not part of a recording"),
        (b'{"format":"warpsmith model traffic","version":2,"voices":[]}\n', "Line 1 of"),
        (b'{"format":"warpsmith model traffic","version":1,"voices":[]}\n{"model":"m"}\n', "Line 2 of"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said):
        Replayer(path)
    if content:
        with pytest.raises(UsageError, match=said):
            TranscriptWriter(ScriptedModel([]), path)
        assert path.read_bytes() == content


def test_a_recording_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Replayer(Path("nowhere.jsonl"))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        TranscriptWriter(ScriptedModel([]), tmp_path / "file" / "run.jsonl")


def test_a_recording_into_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MachineError, match="cannot be written"):
        TranscriptWriter(ScriptedModel([]), tmp_path / "pipe")


def test_a_full_disk_is_said() -> None:
    with pytest.raises(MachineError, match="No space left on device"):
        TranscriptWriter(ScriptedModel([]), Path("/dev/full"))


def test_a_recording_that_breaks_does_not_lose_the_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.jsonl"
    recorder = TranscriptWriter(ScriptedModel(lambda p: "code"), path)
    path.unlink()
    path.mkdir()  # stands for a disk that no longer takes anything
    answers = ask_all([(recorder, ask("1")), (recorder, ask("2"))])
    assert [isinstance(one, ModelAnswer) and one.text for one in answers] == ["code", "code"]
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(said) == 1 and "from here on nothing is recorded" in said[0]


def test_many_at_once_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    recorded = Ensemble([ScriptedModel(lambda p: p.user * 50, str(place)) for place in range(4)]).record_to(path)
    ask_all([(model, ask(f"question {place}" * 300)) for model in recorded for place in range(25)])
    lines = path.read_text().splitlines()
    assert len(lines) == 101 and all(json.loads(line) for line in lines)


def test_only_the_owner_reads_a_recording(tmp_path: Path) -> None:
    TranscriptWriter(ScriptedModel([]), tmp_path / "run.jsonl")
    assert (tmp_path / "run.jsonl").stat().st_mode & 0o077 == 0
