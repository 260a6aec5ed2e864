"""Recorded runs of `ask` and `tell` (tests/recorded), replayed: the same questions, verdicts and best."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from warpsmith.archive import Archive
from warpsmith.cli._main import run
from warpsmith.llm.tape import Exchange, read_transcript
from warpsmith.records import Candidate, Direction, Reason, Record, Verdict

FOLDER = Path(__file__).parents[1] / "recorded"
ROWS = tomllib.loads((FOLDER / "runs.toml").read_text())
# Each takes ten seconds or more: one of each kind in every run, a module and a task of ours; make test-slow does all.
EVALUATED = ("gated_residual-retry",)
ASKED = ("softmax-forward",)

EvaluateWith = Callable[[Callable[..., Record]], None]


@dataclass(frozen=True)
class Recorded:
    """A run as it was recorded."""

    name: str

    @property
    def tape(self) -> Path:
        return FOLDER / self.name / "traffic.jsonl"

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return read_transcript(self.tape)[1]

    @property
    def records(self) -> list[Record]:
        return [Record.parse(line) for line in (FOLDER / self.name / "records.jsonl").read_text().splitlines()]

    @property
    def begin(self) -> list[str]:
        row: dict[str, Any] = ROWS[self.name]
        task = str(FOLDER / row["task"]) if "/" in row["task"] else row["task"]
        return ["--task", task, "--direction", row["direction"], "-n", str(row["proposals"]), "--device", "vgpu"]


def replay(recorded: Recorded, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ask and tell until every recorded answer is given."""
    words = ["ask", "again", "--out", str(folder)]
    assert run([*words, *recorded.begin, "--replay", str(recorded.tape)]) == 0, capsys.readouterr().err
    while True:
        assert run(["tell", "again", str(folder)]) == 0, capsys.readouterr().err
        if len(list(folder.glob("*.answer.md"))) == len(recorded.exchanges):
            return
        assert run(words) == 0, capsys.readouterr().err


def verdict(record: Record) -> tuple[str, Verdict, Reason | None]:
    """The kernel, how its evaluation ended and why."""
    return record.candidate.id, record.concluded, record.results[-1].reason


def assert_same(recorded: Recorded) -> None:
    """What the replay left in the archive is what was recorded."""
    with Archive.open() as archive, Archive.open("sqlite://") as before:
        found = [entry.record for entry in archive.records("again")]
        before.start(archive.run("again"))
        for record in recorded.records:
            before.add("again", record)
        best, expected = archive.best("again"), before.best("again")
        assert sorted(map(verdict, found)) == sorted(map(verdict, recorded.records))
        assert best is not None and expected is not None and best.candidate == expected.candidate


def test_they_are_of_three_tasks_both_ways_and_of_two_modules_without_a_seed() -> None:
    ways = {(row["task"], row["direction"]) for row in ROWS.values()}
    for task in ("softmax", "swiglu", "max_pool", "modules/gated_residual.py:GatedResidual"):
        assert {(task, "forward"), (task, "backward")} <= ways
    assert sum(direction == "forward" and "/" in task for task, direction in ways) == 2
    assert {path.parent.name for path in FOLDER.glob("*/traffic.jsonl")} == set(ROWS)


def test_they_hold_real_successes_and_real_failures() -> None:
    ends = [record.results[-1] for name in ROWS for record in Recorded(name).records]
    wrong = {end.reason for end in ends if end.verdict is Verdict.FAIL}
    assert wrong >= {
        Reason.COMPILE_ERROR,
        Reason.FINDINGS,
        Reason.LAUNCH_ERROR,
        Reason.PRECISION,
        Reason.WRONG_VALUE,
    }
    assert sum(end.verdict is Verdict.PASS for end in ends) >= 20
    kinds = {one.prompt.kind for name in ROWS for one in Recorded(name).exchanges}
    assert kinds == {"translate", "propose"}


def marked(sample: tuple[str, ...]) -> list[Any]:
    """All runs, those beside the sample as slow ones."""
    return [pytest.param(name, marks=() if name in sample else pytest.mark.slow) for name in ROWS]


@pytest.mark.parametrize("name", marked(ASKED))
def test_from_the_recorded_records_the_same_questions_follow(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], evaluate_with: EvaluateWith
) -> None:
    recorded = Recorded(name)
    known = {record.candidate.source: record for record in recorded.records}

    def grade(candidate: Candidate, config: object, seed: int) -> Record:
        record = known[candidate.source]
        assert record.options.seeds == (seed,)  # drawn from the run's own and the kernel
        return record

    evaluate_with(grade)
    replay(recorded, tmp_path / "letters", capsys)
    assert_same(recorded)


@pytest.mark.parametrize("name", marked(EVALUATED))
def test_evaluated_again_they_come_to_the_same(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replay(Recorded(name), tmp_path / "letters", capsys)
    assert_same(Recorded(name))


def test_a_recording_of_another_direction_says_where_the_questions_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = Recorded("gated_residual-forward"), Recorded("gated_residual-backward")
    words = ["ask", "again", "--out", str(tmp_path), *one.begin, "--replay", str(other.tape)]
    assert run(words) == 3
    said = capsys.readouterr().err
    assert "does not hold a translate prompt" in said and f"{Direction.FORWARD}" in said
