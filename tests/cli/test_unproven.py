"""What `best`, `show`, `report` and `export` hand out was evaluated fully; otherwise --unproven marks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpsmith
from warpsmith.archive import Archive
from warpsmith.cli._main import run
from warpsmith.evaluation import EvaluationConfig
from warpsmith.records import Candidate, Direction, EvaluationOptions, Reason, Record, Run, unproven_reason
from warpsmith.search.fake import fake_record
from warpsmith.tasks.formats.own import read_task

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
SOFTMAX = (SUITE / "softmax" / "seed_forward.cu").read_text()
QUICK = EvaluationOptions(device="vgpu", extra={"gpu": "H200", "effort": "sketch"})
FULL = EvaluationOptions(device="vgpu", extra={"gpu": "H200", "effort": "thorough"})

EvaluateWith = Callable[[Callable[..., Record]], None]


def record(us: float | Reason, options: EvaluationOptions, name: str = "") -> Record:
    """A record of the softmax seed with one more comment, as a search or a full evaluation leaves it."""
    candidate = Candidate(task="softmax", direction=Direction.FORWARD, source=f"{SOFTMAX}// {name}\n")
    version = read_task(SUITE / "softmax").version
    return fake_record(candidate, us).model_copy(update={"options": options, "task_version": version})


@pytest.fixture
def archive(archive_url: str) -> Archive:
    """A run that was interrupted, and one of which a kernel was evaluated fully that is as fast as an earlier one."""
    made = Run(name="quick", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu")
    with Archive.open(archive_url) as archive:
        for name in ("quick", "tie"):
            archive.start(made.model_copy(update={"name": name}))
            archive.add(name, record(4.0, QUICK, "first"), proposal="0.0")
            archive.add(name, record(4.0, QUICK, "second"), proposal="1.0")
        archive.add("tie", record(4.0, FULL, "second"), proposal="final")
        return archive


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("words", [["best", "quick"], ["export", "quick", "--to", "{tmp}/package"]])
def test_a_run_without_a_full_evaluation_hands_nothing_out(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([word.format(tmp=tmp_path) for word in words]) == 4
    said = capsys.readouterr().err
    assert "was not evaluated fully" in said and "--unproven" in said and "--resume" in said
    assert not (tmp_path / "package").exists() and not list(tmp_path.rglob("best*.cu"))


@pytest.mark.usefixtures("archive")
def test_an_unproven_kernel_says_so_in_its_first_line_and_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["best", "quick", "--unproven", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert Path(found["path"]).name == "best-unproven.cu" and "quick check" in found["unproven"]
    assert Path(found["path"]).read_text().startswith("// UNPROVEN: ")
    assert run(["best", "quick", "--unproven", "--out", str(tmp_path / "k.cu")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == str(tmp_path / "k-unproven.cu")
    assert run(["best", "quick", "--unproven", "--source"]) == 0
    assert capsys.readouterr().out.startswith("// UNPROVEN: ")


@pytest.mark.usefixtures("archive")
def test_a_package_of_an_unproven_kernel_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "package"
    assert run(["export", "quick", "--to", str(to), "--unproven"]) == 0
    assert "forward-unproven.cu" in capsys.readouterr().out
    assert (to / "README.md").read_text().startswith("**UNPROVEN: the forward kernel: ")
    kernels = to / "src/softmax_kernel/kernels"
    assert (kernels / "forward-unproven.cu").read_text().startswith("// UNPROVEN: ")
    assert '#include "forward-unproven.cu"' in (kernels / "forward_unit.cu").read_text()
    assert not (kernels / "forward.cu").exists()


@pytest.mark.usefixtures("archive")
def test_a_marked_kernel_is_the_candidate_that_was_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], archive_url: str
) -> None:
    marked = tmp_path / "softmax" / "forward-unproven.cu"
    assert run(["best", "quick", "--unproven", "--out", str(marked.with_name("forward.cu"))]) == 0
    assert run(["export", str(marked), "--task", "softmax", "--to", str(tmp_path / "package")]) == 4
    with Archive.open(archive_url) as archive:
        archive.add(None, record(4.0, FULL, "first"))
    assert run(["export", str(marked), "--task", "softmax", "--to", str(tmp_path / "package")]) == 0
    kernel = tmp_path / "package/src/softmax_kernel/kernels/forward.cu"
    assert kernel.read_text() == record(4.0, FULL, "first").candidate.source
    capsys.readouterr()


@pytest.mark.usefixtures("archive")
def test_of_equals_all_commands_name_the_one_that_was_evaluated_fully(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = record(4.0, FULL, "second").candidate
    assert run(["best", "tie", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["record"]["candidate"]["source"] == second.source
    assert run(["show", "tie", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"]["candidate"] == second.id
    assert run(["report", "tie", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["best"]["candidate"] == second.id
    assert run(["export", "tie", "--to", str(tmp_path / "package")]) == 0
    assert (tmp_path / "package/src/softmax_kernel/kernels/forward.cu").read_text() == second.source


@pytest.mark.usefixtures("archive")
def test_show_runs_and_report_say_what_was_not_evaluated_fully(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "quick"]) == run(["runs"]) == run(["report", "quick"]) == 0
    shown = capsys.readouterr().out
    assert "best: 4.00 µs modelled, 1 case, not evaluated fully" in shown
    assert "Unproven: it passed" in shown and "// UNPROVEN: " in shown and "warpsmith best quick --out" in shown
    assert run(["show", "tie"]) == 0
    assert "not evaluated fully" not in capsys.readouterr().out


def test_a_kernel_that_failed_since_is_not_exported_even_as_unproven(archive: Archive, archive_url: str) -> None:
    with Archive.open(archive_url) as there:
        there.add("quick", record(Reason.WRONG_VALUE, FULL, "first"), proposal="final")
        there.add("quick", record(Reason.WRONG_VALUE, FULL, "second"), proposal="final")
    assert run(["best", "quick", "--unproven"]) == 4


@pytest.mark.parametrize(
    ("device", "extra", "cases", "proven"),
    [
        ("vgpu", {"gpu": "H200"}, (), True),
        ("vgpu", {"gpu": "H200", "effort": "thorough"}, (), True),
        ("cuda", {"tier": "claim"}, (), True),
        ("vgpu", {"gpu": "H200", "effort": "sketch"}, (), False),
        ("cuda", {"tier": "search"}, (), False),
        ("vgpu", {"gpu": "H200"}, ("smoke",), False),
        ("vgpu", {"gpu": "H200", "seed": "given"}, (), False),
        ("vgpu", {"gpu": "H200", "without": "static"}, (), False),
        ("cuda", {"tier": "claim", "most_cases": "1"}, (), False),
    ],
)
def test_a_full_evaluation_leaves_nothing_out(
    device: str, extra: dict[str, str], cases: tuple[str, ...], proven: bool
) -> None:
    options = EvaluationOptions(device=device, extra=extra, cases=cases)
    assert (unproven_reason(record(4.0, options)) == "") is proven


@pytest.mark.usefixtures("archive")
def test_a_full_evaluation_beside_the_run_counts_until_one_fails(archive_url: str) -> None:
    assert run(["best", "quick"]) == 4
    with Archive.open(archive_url) as archive:
        archive.add(None, record(4.0, FULL, "first"))
    assert run(["best", "quick"]) == 0
    with Archive.open(archive_url) as archive:
        archive.add(None, record(Reason.WRONG_VALUE, FULL, "first"))
    assert run(["best", "quick"]) == 4


def test_after_none_of_the_best_held_no_other_is_handed_out(
    evaluate_with: EvaluateWith, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(candidate: Candidate, config: EvaluationConfig, *_: Any) -> Record:
        us: float | Reason = 4.0 - 0.01 * len(candidate.macros)
        if config.effort != "sketch":
            us = Reason.WRONG_VALUE
        return fake_record(candidate.model_copy(update={"task": "softmax"}), us).model_copy(
            update={"options": config.stored(1)}
        )

    evaluate_with(judge)
    assert run(["optimize", "softmax", "--device", "vgpu", "--run", "mine", "--generations", "1"]) == 4
    assert "none of the best held" in capsys.readouterr().out
    assert run(["best", "mine"]) == 4
    assert "was not evaluated fully" in capsys.readouterr().err
    assert run(["export", "mine", "--to", "nowhere"]) == 4
    assert not Path("nowhere").exists()


FAULTY = SOFTMAX.replace(
    "  const scalar_t* row = x + blockIdx.x * cols;\n",
    "  const scalar_t* row = x + blockIdx.x * cols;\n  out += blockIdx.x * cols;\n  if (cols > 4096) cols &= ~3;\n",
).replace("finish(out + blockIdx.x * cols + i", "finish(out + i")


def test_a_winner_that_ask_and_tell_have_not_evaluated_fully_is_evaluated_before_it_is_handed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faster = FAULTY.replace("#define VEC 1", "#define VEC 4")
    assert faster.count("cols &= ~3") == 1 and "#define VEC 4" in faster
    folder = tmp_path / "letters"
    assert run(["ask", "mine", "--task", "softmax", "--device", "vgpu", "-n", "1", "--out", str(folder)]) == 0
    assert run(["best", "mine"]) == 4
    (folder / "1.0.answer.md").write_text(f"Name: wide\nThought: wide loads.\n\n```cuda\n{faster}\n```\n")
    capsys.readouterr()
    assert run(["tell", "mine", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "'wide': pass" in shown and "wrong when evaluated fully: wide" in shown
    assert run(["best", "mine", "--source"]) == 0
    assert capsys.readouterr().out == SOFTMAX
    assert run(["export", "mine", "--to", str(tmp_path / "package")]) == 0
    assert (tmp_path / "package/src/softmax_kernel/kernels/forward.cu").read_text() == SOFTMAX
    assert run(["ask", "mine", "--out", str(tmp_path / "more")]) == 0
    assert all("cols &= ~3" not in page.read_text() for page in (tmp_path / "more").glob("*.prompt.md"))
