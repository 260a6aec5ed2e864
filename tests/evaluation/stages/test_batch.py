"""A batch: every line has a line, in order, whatever is in it; a kill costs no finished line."""

import json
import threading
import time
from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.batch import Ahead, BadLine, Results, read_requests, run_batch
from warpsmith.records import Candidate, Direction, Environment, Language, Record, StageResult, Verdict

CHOICES = EvaluationConfig(device="vgpu")


def judge(candidate: Candidate, config: EvaluationConfig) -> Record:
    """A record at once; the larger the number in the source, the sooner."""
    time.sleep(0.05 / (1 + len(candidate.source)))
    environment = Environment(device="d", hardware="h")
    record = Record(candidate=candidate, task_version="1", environment=environment, options=config.stored(7))
    return record.with_result(StageResult(stage="check", verdict=Verdict.PASS))


def batch(tmp_path: Path, *lines: object) -> Path:
    path = tmp_path / "batch.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def candidate(number: int) -> dict[str, str]:
    return {"task": "t", "direction": "forward", "source": "x" * number}


def test_results_come_in_the_order_of_the_batch(tmp_path: Path) -> None:
    requests = read_requests(batch(tmp_path, *(candidate(n) for n in range(1, 9))))
    found = [Record.parse(line) for line in run_batch(requests, CHOICES, jobs=4, judge=judge)]
    assert [len(record.candidate.source) for record in found] == list(range(1, 9))


def test_many_are_in_flight_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=20)

    def meeting(candidate: Candidate, config: EvaluationConfig) -> Record:
        together.wait()
        return judge(candidate, config)

    requests = read_requests(batch(tmp_path, *(candidate(n) for n in range(1, 4))))
    assert len(list(run_batch(requests, CHOICES, jobs=3, judge=meeting))) == 3


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ('{"task": "t"}', "neither path nor source"),
        ('{"task": "t", "source": "x", "direction": "up"}', "direction"),
        ('{"task": "t", "source": "x", "surprise": 1}', "surprise"),
        ('{"task": "t", "path": "absent.cu"}', "does not exist"),
        ("[" * 100_000, "not JSON"),
        (f'{{"task": {"7" * 9999}}}', "not JSON"),
        (json.dumps({"task": "softmax", "source": "\ud800"}), "half of a surrogate pair"),
    ],
)
def test_a_line_that_is_no_candidate_has_a_line_that_says_so(tmp_path: Path, line: str, complaint: str) -> None:
    requests = read_requests(batch(tmp_path, candidate(1), line, candidate(2)))
    first, second, third = run_batch(requests, CHOICES, jobs=2, judge=judge)
    assert Record.parse(first).verdict is Record.parse(third).verdict is Verdict.PASS
    assert complaint in BadLine.parse(second).error and BadLine.parse(second).line == 2


def test_a_task_that_cannot_be_used_is_said_in_its_line(tmp_path: Path) -> None:
    def refusing(candidate: Candidate, config: EvaluationConfig) -> Record:
        raise UsageError("Task t does not exist.")

    requests, results = read_requests(batch(tmp_path, candidate(1))), Results(tmp_path / "r.jsonl")
    (line,) = run_batch(requests, CHOICES, 1, refusing)
    assert "Task t does not exist." in BadLine.parse(line).error
    results.add(line)
    assert Results(tmp_path / "r.jsonl").left(requests, CHOICES) == [], "it is done, and is gone on with"


def test_a_source_may_lie_in_a_file_beside_the_batch(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" int backward(void* s) { return 0; }')
    (request,) = read_requests(batch(tmp_path, {"task": "t", "direction": "backward", "path": "k.cu"}))
    assert request.candidate is not None
    assert request.candidate.language == Language.PLAIN and request.candidate.direction is Direction.BACKWARD


def run_some(path: Path, out: Path, count: int) -> None:
    requests, results = read_requests(path), Results(out)
    for _, line in zip(range(count), run_batch(results.left(requests, CHOICES), CHOICES, 2, judge), strict=False):
        results.add(line)


def test_it_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    path, out = (
        batch(tmp_path, candidate(1), "{", candidate(2), candidate(2), candidate(3)),
        tmp_path / "out" / "r.jsonl",
    )
    run_some(path, out, 3)
    with out.open("a") as half:
        half.write('{"version": 1, "candi')
    assert len(Results(out).left(read_requests(path), CHOICES)) == 2
    run_some(path, out, 9)
    lines = out.read_text().splitlines()
    assert len(lines) == 5
    assert [len(Record.parse(line).candidate.source) for line in lines if "error" not in line[:10]] == [1, 2, 2, 3]
    assert Results(out).left(read_requests(path), CHOICES) == []


def test_what_was_done_before_its_turn_is_not_done_again(tmp_path: Path) -> None:
    path, out = batch(tmp_path, *(candidate(n) for n in (1, 2, 2, 3, 4))), tmp_path / "r.jsonl"
    beside, asked = tmp_path / "r.jsonl.ahead", list[int]()

    def first_fails(candidate: Candidate, config: EvaluationConfig) -> Record:
        if len(candidate.source) == 1:
            while not beside.exists() or len(beside.read_text().splitlines()) < 3:
                time.sleep(0.01)
            raise KeyboardInterrupt
        if len(candidate.source) == 4:
            return judge(candidate, config).with_result(StageResult(stage="timing", verdict=Verdict.FAULT))
        return judge(candidate, config)

    def noting(candidate: Candidate, config: EvaluationConfig) -> Record:
        asked.append(len(candidate.source))
        return judge(candidate, config)

    requests = read_requests(path)
    with pytest.raises(KeyboardInterrupt):
        list(run_batch(requests, CHOICES, 5, first_fails, Ahead(Results(out))))
    results = Results(out)
    ahead = Ahead(results)
    for line in run_batch(results.left(requests, CHOICES), CHOICES, 2, noting, ahead):
        results.add(line)
    assert asked == [1, 4], "three were there; what was our fault is tried again"
    assert [len(Record.parse(line).candidate.source) for line in Results(out).lines] == [1, 2, 2, 3, 4]
    assert Ahead(Results(out)).take(requests[1], CHOICES) is None, "each has served once"
    ahead.over()
    assert not beside.exists()


def test_the_result_of_a_kernel_for_one_task_is_not_taken_for_another(tmp_path: Path) -> None:
    """The same text stands for both; a record calls a task by its name, and a batch perhaps by its path."""
    lines = [{"task": task, "source": "x"} for task in ("softmax", "./other", "attention")]
    first, other, last = read_requests(batch(tmp_path, *lines))
    out = tmp_path / "r.jsonl"
    assert last.candidate is not None
    ahead = Ahead(Results(out))
    ahead.add(last, judge(last.candidate, CHOICES).text())
    again = Ahead(Results(out))
    assert again.take(first, CHOICES) is None and again.take(other, CHOICES) is None
    found = again.take(last, CHOICES)
    assert found is not None
    Results(out).add(found)
    with pytest.raises(UsageError, match="Line 1"):
        Results(out).left([first], CHOICES)
    assert Results(out).left([last], CHOICES) == []


def test_results_of_another_batch_are_not_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    run_some(batch(tmp_path, candidate(1), candidate(2)), out, 2)
    other = read_requests(batch(tmp_path, candidate(3), candidate(2)))
    with pytest.raises(UsageError, match="Line 1"):
        Results(out).left(other, CHOICES)
    fewer = read_requests(batch(tmp_path, candidate(1)))
    with pytest.raises(UsageError, match="2 results; the batch has 1"):
        Results(out).left(fewer, CHOICES)
    same = read_requests(batch(tmp_path, candidate(1), candidate(2)))
    with pytest.raises(UsageError, match="these options"):
        Results(out).left(same, EvaluationConfig(device="vgpu", gpu="A100"))


def test_an_empty_batch_is_done_at_once(tmp_path: Path) -> None:
    assert list(run_batch(read_requests(batch(tmp_path)), CHOICES, 2, judge)) == []
    with pytest.raises(UsageError, match="does not exist"):
        read_requests(tmp_path / "absent.jsonl")


def test_the_name_of_a_file_says_which_pass_it_is_as_for_one_kernel(tmp_path: Path) -> None:
    for name in ("seed_backward.cu", "k.cu"):
        (tmp_path / name).write_text("x")
    lines = [{"task": "t", "path": "seed_backward.cu"}, {"task": "t", "path": "k.cu"}, {"task": "t", "source": "x"}]
    found = [one.candidate.direction for one in read_requests(batch(tmp_path, *lines)) if one.candidate]
    assert found == [Direction.BACKWARD, Direction.FORWARD, Direction.FORWARD]


@pytest.mark.parametrize(
    "wrong", [EvaluationConfig(device="vgpu", gpu="H20"), EvaluationConfig(device="vgpu", until="chek")]
)
def test_choices_that_suit_no_candidate_are_told_once_and_not_in_every_line(
    tmp_path: Path, wrong: EvaluationConfig
) -> None:
    requests = read_requests(batch(tmp_path, candidate(1), candidate(2)))
    with pytest.raises(UsageError, match=r"H20 is not described|Stage chek does not exist"):
        list(run_batch(requests, wrong, 1, judge))
