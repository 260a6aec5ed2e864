"""Runs, records, notes and model calls: what goes in comes out, once."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from warpsmith.archive import Archive, ModelCall, Run, RunState
from warpsmith.base import UsageError
from warpsmith.records import Direction, Reason, Record, Verdict

Make = Callable[..., Record]


def test_a_record_comes_back_with_what_was_said_of_it(archive: Archive, make: Make) -> None:
    record = make("a", parents=("p",))
    name = archive.add(
        "first", record, generation=3, proposal="x", cost_usd=0.5, model="m", operator="improve", cell="vector"
    )
    (entry,) = archive.records("first")
    assert entry.id == name and entry.record == record and entry.key == record.key
    assert (entry.candidate, entry.task, entry.direction) == (record.candidate.id, "softmax", Direction.FORWARD)
    assert (entry.verdict, entry.reason, entry.stage) == (Verdict.PASS, "", "timing")
    assert (entry.tags.generation, entry.tags.model, entry.tags.cell) == (3, "m", "vector")
    assert entry.parents == ("p",) and entry.score is not None and entry.created.tzinfo is not None


def test_the_same_record_is_there_once_and_another_evaluation_beside_it(archive: Archive, make: Make) -> None:
    first = archive.add("first", make("a", seed=1))
    assert archive.add("first", make("a", seed=1)) == first
    assert archive.add("first", make("a", seed=2)) != first
    assert archive.count("first") == 2
    assert len({entry.key for entry in archive.records("first")}) == 1


def test_the_same_record_may_be_in_two_runs_and_in_none(archive: Archive, run: Run, make: Make) -> None:
    archive.start(run.model_copy(update={"name": "second"}))
    for name in ("first", "second", None):
        archive.add(name, make("a"))
    assert [archive.count(name) for name in ("first", "second", "", None)] == [1, 1, 1, 3]


def test_records_are_filtered_and_paged_in_order(archive: Archive, make: Make) -> None:
    for place in range(450):
        fails = Reason.WRONG_VALUE if place % 3 == 0 else None
        archive.add("first", make(f"k{place}", fails=fails, task="softmax" if place % 2 else "rope"))
    assert [entry.record.candidate.source for entry in archive.records("first")] == [f"k{n}" for n in range(450)]
    assert sum(1 for _ in archive.records(verdict=Verdict.FAIL)) == 150
    assert {entry.task for entry in archive.records(task="rope", direction=Direction.FORWARD)} == {"rope"}
    assert sum(1 for _ in archive.records(direction=Direction.BACKWARD)) == 0
    assert sum(1 for _ in archive.records(limit=201)) == 201
    assert sum(1 for _ in archive.records(limit=0)) == 0
    one = make("k7")
    assert [entry.candidate for entry in archive.records(candidate=one.candidate.id)] == [one.candidate.id]
    assert [entry.key for entry in archive.records(key=one.key)] == [one.key]


def test_records_can_be_added_while_they_are_read(archive: Archive, make: Make) -> None:
    for place in range(3):
        archive.add("first", make(f"k{place}"))
    for entry in archive.records("first"):
        archive.add(None, make(f"from {entry.id}"))
    assert archive.count("") == 3


def test_outcomes_are_the_funnel(archive: Archive, make: Make) -> None:
    for place in range(5):
        archive.add("first", make(f"k{place}", fails=Reason.WRONG_VALUE if place < 2 else None))
    archive.add("first", make("never checked").model_copy(update={"results": ()}))
    found = [(one.stage, one.verdict, one.reason, one.count) for one in archive.outcomes("first")]
    assert found == [
        ("timing", Verdict.PASS, "", 3),
        ("check", Verdict.FAIL, "wrong_value", 2),
        ("", Verdict.SKIP, "", 1),
    ]


def test_runs_are_started_found_and_finished(archive: Archive, run: Run) -> None:
    assert archive.run("first") == run
    done = archive.finish("first", RunState.DONE, "no gain for 5 generations")
    assert archive.run("first") == done and done.finished is not None and done.why
    assert archive.finish("first", RunState.RUNNING).finished is None
    later = run.model_copy(update={"name": "later", "started": done.finished})
    archive.start(later)
    assert [one.name for one in archive.runs()] == ["later", "first"]


def test_a_name_that_is_taken_is_refused_with_both_ways_out(archive: Archive, run: Run) -> None:
    with pytest.raises(UsageError, match=r"Run first .*--resume.*--run names another"):
        archive.start(run)


def test_a_run_that_is_not_there_is_refused_everywhere(archive: Archive, make: Make) -> None:
    with pytest.raises(UsageError, match="Did you mean first"):
        archive.run("frist")
    for act in (
        lambda: archive.add("frist", make()),
        lambda: archive.note("frist", "lesson", 1),
        lambda: archive.spend("frist", ModelCall(model="m")),
        lambda: archive.finish("frist", RunState.DONE),
    ):
        with pytest.raises(UsageError, match="does not exist"):
            act()


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "x" * 101])
def test_a_run_s_name_can_be_a_file_s(name: str) -> None:
    with pytest.raises(ValidationError):
        Run(name=name, target="t", task="t", direction=Direction.FORWARD, device="vgpu")


def test_notes_append_replace_and_go(archive: Archive) -> None:
    one = archive.note("first", "lesson", {"text": "wide loads help", "gain": 1.2})
    two = archive.note("first", "lesson", ["second"])
    archive.note("first", "bandit", 1, name="state")
    archive.note("first", "bandit", {"arms": [1, 2]}, name="state")
    archive.note(None, "lesson", "of no run")
    assert [note.name for note in archive.notes("first", "lesson")] == [one, two]
    assert [note.body for note in archive.notes("first", "bandit")] == [{"arms": [1, 2]}]
    assert [note.body for note in archive.notes(None, "lesson")] == ["of no run"]
    archive.delete_note("first", "lesson", one)
    archive.delete_note("first", "lesson", one)
    assert [note.body for note in archive.notes("first", "lesson")] == [["second"]]


def test_model_calls_are_summed_by_model_and_operator(archive: Archive) -> None:
    for usd in (0.25, 0.5):
        archive.spend("first", ModelCall(model="a", operator="improve", input_tokens=10, output_tokens=5, usd=usd))
    archive.spend("first", ModelCall(model="b", usd=1.0, seconds=2.0))
    a, b = archive.spent("first")
    assert (a.model, a.operator, a.calls, a.input_tokens, a.usd) == ("a", "improve", 2, 20, 0.75)
    assert (b.model, b.calls, b.usd, b.seconds) == ("b", 1, 1.0, 2.0)


def test_what_is_written_together_is_there_together_or_not_at_all(archive: Archive, make: Make) -> None:
    with pytest.raises(RuntimeError), archive.transaction():
        archive.add("first", make("a"))
        archive.note("first", "lesson", 1)
        assert archive.count("first") == 1
        raise RuntimeError
    assert archive.count("first") == 0 and not archive.notes("first", "lesson")
    with archive.transaction():
        archive.add("first", make("a"))
        archive.note("first", "lesson", 1)
    assert archive.count("first") == 1 and len(archive.notes("first", "lesson")) == 1


@pytest.mark.parametrize("place", ["memory", "shared"])
def test_threads_share_an_archive(place: str, url: str, run: Run, make: Make) -> None:
    with Archive.open("sqlite://" if place == "memory" else url) as archive:
        if place == "memory":
            archive.start(run)
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for turn in range(25):
                    archive.add("first", make(f"{number} {turn}"))
                    assert any(entry.run == "first" for entry in archive.records("first", limit=3))
            except BaseException as error:  # noqa: BLE001 - shown by the test, which a thread cannot fail
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures and archive.count("first") == 200


def test_the_default_is_a_file_in_the_data_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPSMITH_ARCHIVE", raising=False)
    Archive.open().close()
    assert (home / "data" / "archive.sqlite").is_file()
    monkeypatch.setenv("WARPSMITH_ARCHIVE", f"sqlite:///{home / 'other.sqlite'}")
    Archive.open().close()
    assert (home / "other.sqlite").is_file()
