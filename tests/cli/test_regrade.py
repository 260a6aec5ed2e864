"""`warpsmith regrade` on records and kernels, with an instant evaluator and once with the real one."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from warpsmith.app import RegradeRequest, read_records, records_below
from warpsmith.app.regrading import regrade_config
from warpsmith.archive import Archive
from warpsmith.base import HarnessError, UsageError
from warpsmith.cli._main import run
from warpsmith.evaluation.batch import BadLine
from warpsmith.evaluation.run import opened_evaluation
from warpsmith.records import Candidate, Direction, EvaluationOptions, Reason, Record
from warpsmith.search.fake import fake_record

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
SEED = SUITE / "swiglu" / "seed_forward.cu"
ASKED: list[tuple[Candidate, Any, int | None]] = []

EvaluateWith = Callable[[Callable[..., Record]], None]


def kernel(source: str = "fast") -> Candidate:
    return Candidate(task="swiglu", direction=Direction.FORWARD, source=source)


@pytest.fixture
def evaluator(evaluate_with: EvaluateWith) -> None:
    """An evaluator that passes what says `fast`, in 4 µs, and notes what it was asked."""
    ASKED.clear()

    def judged(candidate: Candidate, config: Any, seed: int | None = None) -> Record:
        ASKED.append((candidate, config, seed))
        return fake_record(candidate, 4.0 if "fast" in candidate.source else Reason.WRONG_VALUE)

    evaluate_with(judged)


def test_several_are_evaluated_at_once_and_told_in_order(
    tmp_path: Path, evaluate_with: EvaluateWith, capsys: pytest.CaptureFixture[str]
) -> None:
    last = threading.Event()

    def judged(candidate: Candidate, _choices: Any, _seed: int | None = None) -> Record:
        if candidate.source == "fast 2":
            last.set()
        assert last.wait(10), "the others wait for the last one"
        return fake_record(candidate, 4.0)

    evaluate_with(judged)
    lines = [fake_record(kernel(f"fast {number}"), 4.0).text() for number in range(3)]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    assert run(["regrade", str(tmp_path / "r.jsonl"), "--device", "vgpu", "--no-archive", "-j", "3"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("r.jsonl:1") < shown.index("r.jsonl:2") < shown.index("r.jsonl:3")


@pytest.mark.usefixtures("evaluator")
def test_records_that_agree(tmp_path: Path, archive_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [fake_record(kernel(), 4.1), fake_record(kernel("slow"), Reason.WRONG_VALUE)]
    (tmp_path / "r.jsonl").write_text("\n".join(line.text() for line in lines) + "\n")
    assert run(["regrade", str(tmp_path / "r.jsonl"), "--device", "vgpu"]) == 0
    shown = capsys.readouterr().out
    assert "AGREES  " in shown and "modelled times 0.976 of then" in shown and "r.jsonl:2" in shown
    with Archive.open(archive_url) as archive:
        assert archive.count() == 2


@pytest.mark.usefixtures("evaluator")
def test_a_record_that_promised_too_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.json").write_text(fake_record(kernel(), 2.0).text())
    words = ["regrade", str(tmp_path / "r.json"), "--device", "vgpu", "--no-archive"]
    assert run([*words, "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert one["answer"] == "disagrees" and one["times"] == {"kind": "modelled", "ratio": 2.0, "cases": 1}
    assert run([*words, "--within", "1.5"]) == 0


@pytest.mark.usefixtures("evaluator")
def test_a_tree_of_kernels_with_and_without_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "kernels" / "swiglu"
    folder.mkdir(parents=True)
    (folder / "forward.cu").write_text("fast")
    (folder / "forward.json").write_text(fake_record(kernel(), 4.0).text())
    (folder / "backward.cu").write_text("wrong")
    assert run(["regrade", str(tmp_path / "kernels"), "--device", "vgpu"]) == 1
    shown = capsys.readouterr().out
    assert "DISAGREES  " in shown and "published without a record" in shown and "times 1.000 of then" in shown
    assert {(one.task, one.direction) for one, _, _ in ASKED} == {("swiglu", "forward"), ("swiglu", "backward")}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Kernels of both passes of swiglu, and an empty folder of results where a project has it."""
    (tmp_path / "docs" / "results" / "h200").mkdir(parents=True)
    (tmp_path / "kernels" / "swiglu").mkdir(parents=True)
    (tmp_path / "kernels" / "swiglu" / "forward.cu").write_text("fast")
    (tmp_path / "kernels" / "swiglu" / "backward.cu").write_text("fast too")
    return tmp_path


def on_a_gpu(candidate: Candidate, us: float, tier: str) -> Record:
    """A record of another machine."""
    record = fake_record(candidate, us)
    there = record.environment.model_copy(update={"hardware": "cuda:NVIDIA H200"})
    options = EvaluationOptions.from_fields(device="cuda", extra={"tier": tier})
    return record.model_copy(update={"environment": there, "options": options})


@pytest.mark.usefixtures("evaluator")
def test_a_folder_of_kernels_is_held_against_the_published_results(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = project / "docs" / "results" / "h200"
    tuned = kernel().model_copy(update={"macros": {"BLOCK": "128"}})
    lines = [on_a_gpu(kernel(), 4.0, "search").text(), on_a_gpu(tuned, 3.0, "claim").text()]
    (results / "records.jsonl").write_text("\n".join(lines) + "\n")
    (results / "noise.json").write_text('{"pairs": 20}')
    assert run(["regrade", str(project / "kernels"), "--device", "vgpu", "--no-archive"]) == 0
    backward, forward = capsys.readouterr().out.split("AGREES  ")[1:]
    assert "then on cuda:NVIDIA H200, now on fake:0: times not compared" in forward
    assert "published without a record: it should pass" in backward
    assert {str(one.direction): dict(one.macros) for one, _, _ in ASKED} == {
        "backward": {},
        "forward": {"BLOCK": "128"},
    }


@pytest.mark.usefixtures("evaluator")
def test_a_kernel_that_changed_since_its_record_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "r.jsonl").write_text(fake_record(kernel("as it was"), 4.0).text() + "\n")
    path = str(project / "kernels" / "swiglu" / "forward.cu")
    assert run(["regrade", path, "--against", str(project), "--device", "vgpu", "--no-archive"]) == 0
    assert "has a record of another text for this task" in capsys.readouterr().out
    assert run(["regrade", path, "--against", str(project / "nowhere"), "--device", "vgpu"]) == 2
    assert "--against names one" in capsys.readouterr().err


@pytest.mark.usefixtures("evaluator")
def test_macros_that_are_named_ask_for_the_record_that_has_them(project: Path) -> None:
    (project / "docs" / "results" / "r.json").write_text(fake_record(kernel(), 9.0).text())
    path = str(project / "kernels" / "swiglu" / "forward.cu")
    assert run(["regrade", path, "--device", "vgpu", "--no-archive"]) == 1
    assert run(["regrade", path, "-DBLOCK=64", "--device", "vgpu", "--no-archive"]) == 0


@pytest.mark.usefixtures("evaluator")
@pytest.mark.parametrize("place", [".", "kernels", "kernels/swiglu"])
def test_results_are_found_from_wherever_the_command_is_typed(
    place: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "docs" / "results" / "r.json").write_text(fake_record(kernel(), 9.0).text())
    monkeypatch.chdir(project / place)
    path = (project / "kernels" / "swiglu" / "forward.cu").relative_to(project / place)
    assert run(["regrade", str(path), "--device", "vgpu", "--no-archive"]) == 1


@pytest.mark.usefixtures("evaluator")
def test_the_same_seed_and_the_same_choices(tmp_path: Path) -> None:
    record = fake_record(kernel(), 4.0)
    options = EvaluationOptions.from_fields(device="vgpu", seeds=(7,), gpu="A100")
    (tmp_path / "r.json").write_text(record.model_copy(update={"options": options}).text())
    words = ["regrade", str(tmp_path / "r.json"), "--device", "vgpu"]
    assert run(words) == run([*words, "--same-seed"]) == 0
    assert [(seed, config.scheme) for _, config, seed in ASKED] == [(None, 2), (7, 1)], "an older record's calls"
    assert ASKED[0][1].gpu == "A100" and ASKED[0][1].effort == "usual"


@pytest.mark.parametrize(("quick", "asked"), [(False, ("claim", ("eager", "compile"))), (True, ("search", ("eager",)))])
def test_a_claim_meets_the_modes_that_it_met_and_a_quick_look_eager_alone(
    quick: bool, asked: tuple[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.evaluation.config.gpus", lambda: ["a GPU"])
    request = RegradeRequest((), quick=quick)
    record = on_a_gpu(kernel(), 4.0, "claim")
    extra = {"tier": "claim", "baselines": "eager,compile"}
    claimed = record.model_copy(update={"options": EvaluationOptions.from_fields(device="cuda", extra=extra)})
    found = regrade_config(claimed, request)
    assert (found.tier, found.baselines) == asked
    assert regrade_config(None, request).baselines == (("eager",) if quick else ())


@pytest.mark.usefixtures("evaluator")
@pytest.mark.parametrize("effort", ["sketch", "thorough"])
def test_the_cases_that_a_search_timed_are_timed_again(effort: str, tmp_path: Path) -> None:
    record = fake_record(kernel(), 4.0)
    options = EvaluationOptions.from_fields(device="vgpu", effort=effort)
    (tmp_path / "r.json").write_text(record.model_copy(update={"options": options}).text())
    assert run(["regrade", str(tmp_path / "r.json"), "--device", "vgpu", "--no-archive"]) == 0
    assert [config.effort for _, config, _ in ASKED] == ["thorough"]


def test_a_line_that_cannot_be_evaluated_has_an_answer_like_the_others(
    tmp_path: Path, evaluate_with: EvaluateWith, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(candidate: Candidate, *rest: Any) -> Record:
        if candidate.task != "swiglu":
            raise UsageError(f"Task {candidate.task} does not exist.")
        return fake_record(candidate, 4.0)

    evaluate_with(judged)
    own = fake_record(kernel().model_copy(update={"task": "Mine"}), 4.0)
    refused = BadLine(error="Line 2: no candidate: source is missing", line=2, input="0")
    lines = [fake_record(kernel(), 4.0).text(), refused.text(), own.text(), "nonsense"]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    words = ["regrade", str(tmp_path / "r.jsonl"), "--device", "vgpu"]
    assert run(words) in (1, 4)  # some of the changed records disagree, and none has an error for all of them
    shown = capsys.readouterr().out
    assert "AGREES  " in shown and "NO VERDICT  " in shown and "r.jsonl:4: no record\n" in shown
    assert "r.jsonl:2: no record\n  Line 2: no candidate: source is missing\n" in shown
    assert "r.jsonl:3: Mine forward, then pass, now skip\n  Task Mine does not exist. --task names it" in shown
    assert run([*words, "--json"]) == 4
    answers = [one["answer"] for one in json.loads(capsys.readouterr().out)]
    assert answers == ["agrees", "no verdict", "no verdict", "no verdict"]


def test_only_a_newline_ends_a_record(tmp_path: Path) -> None:
    lines = [fake_record(kernel(source), 4.0).text() for source in ("// a\u2028b", "// a\x85b")]
    (tmp_path / "r.jsonl").write_text("\n\n".join(lines))
    found = read_records(tmp_path / "r.jsonl")
    assert [one.text() for one in found] == lines
    assert records_below(tmp_path) == tuple(found)


@pytest.mark.usefixtures("evaluator")
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("r.json", "{}", "no record"),
        ("r.jsonl", "\n", "holds no record"),
        ("k.cu", "fast", "Name its task with --task"),
        ("swiglu/forward.cu", "other", "record of another kernel"),
    ],
)
def test_what_cannot_be_regraded_is_said(
    name: str, text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    if path.parent.name == "swiglu":
        path.with_suffix(".json").write_text(fake_record(kernel(), 4.0).text())
    assert run(["regrade", str(path), "--device", "vgpu"]) == 2
    assert complaint in capsys.readouterr().err


def test_a_folder_without_kernels_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["regrade", str(tmp_path)]) == 2
    assert "No kernel (.cu) and no record" in capsys.readouterr().err


def test_a_seed_agrees_with_itself_for_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--device", "vgpu", "--no-archive", "--json"]
    assert run(["eval", "swiglu", str(SEED), *words]) == 0
    (tmp_path / "r.json").write_text(capsys.readouterr().out)
    assert run(["regrade", str(tmp_path / "r.json"), *words]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (
        one["answer"] == "agrees"
        and one["times"]["kind"] == "modelled"
        and one["times"]["ratio"] == pytest.approx(1.0, abs=0.02)
    )
    assert one["record"]["options"]["seeds"] != json.loads((tmp_path / "r.json").read_text())["options"]["seeds"]


def test_a_kernel_that_is_not_there_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["regrade", "absent.cu"]) == 2
    assert "File absent.cu does not exist" in capsys.readouterr().err


HOSTILE = (
    None, -1, 1 << 62, 1 << 63, 10**400, 1.5, "NaN", float("nan"), float("inf"), "x" * 100_000, "", [], {}, [[[]]],
    True, "\0", "../../../etc/passwd", "/dev/zero", "[/red]", "\x1b[2J", ["x" * 100_000], {"x" * 100_000: "y"},
    "none.toml", "/", "x" * 300, "none.py:Name",
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, but the document itself."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = json.loads(json.dumps(document))
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


def hostile_records() -> list[str]:
    """A record with each hostile value in each of its places in turn, and lines that nest deeply."""
    options = {"device": "vgpu", "seeds": (5,), "cases": ("smoke",), "extra": {"tier": "claim", "baselines": "eager"}}
    record = fake_record(kernel(), 4.0)
    found = json.loads(record.model_copy(update={"options": EvaluationOptions.from_fields(**options)}).text())
    changed = [json.dumps(with_value(found, path, value)) for path in places(found) for value in HOSTILE]
    return [*changed, "[" * 100_000, '{"a":' * 100_000]


def test_of_hostile_records_each_has_its_line_and_the_others_are_evaluated(
    tmp_path: Path, evaluate_with: EvaluateWith, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(candidate: Candidate, config: Any, seed: int | None = None) -> Record:
        with opened_evaluation(candidate, config, seed):
            return fake_record(candidate, 4.0)

    evaluate_with(judged)
    good, bad = fake_record(kernel(), 4.0).text(), random.Random(29).sample(hostile_records(), 300)
    (tmp_path / "r.jsonl").write_text("\n".join([good, *bad, good]) + "\n")
    words = ["regrade", str(tmp_path / "r.jsonl"), "--device", "vgpu", "--no-archive", "--same-seed", "-j", "1"]
    assert run(words) in (1, 4)  # some of the changed records disagree, and none has an error for all of them
    shown = capsys.readouterr()
    heads = [line for line in shown.out.splitlines() if "r.jsonl:" in line]
    assert len(heads) == len(bad) + 2 and not shown.err
    assert heads[0].startswith("AGREES") and heads[-1].startswith("AGREES")
    assert max(map(len, shown.out.splitlines())) < 10_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("candidate", "task"), "x" * 100_000),
        (("candidate", "direction"), "sideways"),
        (("options", "cases", 0), "unknown"),
        (("options", "cases", 0), "x" * 100_000),
        (("options", "seeds", 0), -1),
        (("options", "seeds", 0), 10**30),
        (("options", "device"), ["vgpu"]),
    ],
)
def test_a_hostile_record_is_a_usage_error_that_names_the_field(
    tmp_path: Path, field: tuple[Any, ...], value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = EvaluationOptions.from_fields(device="vgpu", seeds=(5,), cases=("smoke",))
    found = json.loads(fake_record(kernel(), 4.0).model_copy(update={"options": options}).text())
    (tmp_path / "r.json").write_text(json.dumps(with_value(found, field, value)))
    assert run(["regrade", str(tmp_path / "r.json"), "--device", "vgpu", "--no-archive"]) == 2
    said = capsys.readouterr().err
    assert ".".join(map(str, field)) in said and len(said) < 1000


@pytest.mark.usefixtures("evaluator")
def test_a_file_that_is_no_record_costs_the_others_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "good.json").write_text(fake_record(kernel(), 4.0).text())
    files = [str(tmp_path / name) for name in ("bad.json", "good.json")]
    for words in (files, [str(tmp_path)]):
        assert run(["regrade", *words, "--device", "vgpu", "--no-archive"]) == 4
        shown = capsys.readouterr().out
        assert "NO VERDICT" in shown and "AGREES" in shown


def test_a_fault_of_ours_in_one_evaluation_costs_the_others_nothing(
    tmp_path: Path, evaluate_with: EvaluateWith, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(candidate: Candidate, _choices: Any, _seed: int | None = None) -> Record:
        if candidate.source == "ends its task's process":
            raise HarnessError("The process for a task's code ended.")
        return fake_record(candidate, 4.0)

    evaluate_with(judged)
    lines = [fake_record(kernel(text), 4.0).text() for text in ("ends its task's process", "fast")]
    (tmp_path / "r.jsonl").write_text("\n".join(lines) + "\n")
    assert run(["regrade", str(tmp_path / "r.jsonl"), "--device", "vgpu", "--no-archive"]) == 3
    shown = capsys.readouterr().out
    assert "NO VERDICT" in shown and "AGREES" in shown
