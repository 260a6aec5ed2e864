"""benchmarks/verdicts.py: outcomes are read again, runs end in time, and text for readers changes no hash."""

import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warpsmith.evaluation import EvaluationConfig
from warpsmith.records import Candidate, Direction, Verdict

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "verdicts.py"


@pytest.fixture(scope="module")
def verdicts() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))  # processes that evaluate import the script by its name
        yield import_module("verdicts")


def subject(module: ModuleType, name: str, is_wrong: bool = False, source: str = "void f() {}") -> Any:
    candidate = Candidate(task="softmax", direction=Direction.FORWARD, source=source, language="torch_cuda")
    return module.VerdictSubject(name, candidate, is_wrong)


def outcome(module: ModuleType, of: Any, seed: int, verdict: Verdict, tree: str = "t") -> Any:
    return module.RepeatedOutcome(of.key, of.is_wrong, seed, tree, "vgpu", verdict)


def test_docstrings_and_comments_change_no_hash(verdicts: ModuleType) -> None:
    first = '"""One."""\n\ndef f(x):\n    """Two."""\n    return x + 1  # three\n'
    assert verdicts.python_code(first) == verdicts.python_code("def f(x):\n\n    return x + 1\n")
    assert verdicts.python_code(first) != verdicts.python_code("def f(x):\n    return x + 2\n")
    native = '// a\n#define A 1 /* b */\nint f() {\n  return A;  // "c"\n}\nauto t = "http://x"; auto r = R"(// d)";\n'
    assert verdicts.native_code(native) == verdicts.native_code(
        '#define  A 1\nint f() { return A; }\nauto t="http://x";\nauto r = R"(// d)";'
    )
    for old, new in (("return A", "return B"), ("http://x", "http://y"), ("// d", "// e"), ("A 1", "A 2")):
        assert verdicts.native_code(native) != verdicts.native_code(native.replace(old, new))


def test_a_comment_in_a_kernel_leaves_it_the_same_subject(verdicts: ModuleType) -> None:
    one, other = subject(verdicts, "a"), subject(verdicts, "a", source="// a comment\nvoid f() {}")
    assert one.key == other.key != subject(verdicts, "a", source="void g() {}").key


def test_the_tree_holds_what_decides_and_nothing_else(verdicts: ModuleType) -> None:
    package = verdicts.PACKAGE
    assert verdicts.deciding_code(package / "evaluation/check/compare.py") is not None
    assert verdicts.deciding_code(package / "evaluation/timing/rules.py") is None
    assert verdicts.deciding_code(package / "tasks/suite/softmax/seed_forward.cu") is None
    assert verdicts.deciding_code(package / "tasks/suite/softmax/task.toml") is not None
    kinds = {path.suffix for name in verdicts.DECIDING for path in (package / name).rglob("*") if path.is_file()}
    unread = kinds - {".py", ".toml", ".pyc", ".md", ".typed", ".clang-format"} - set(verdicts.NATIVE)
    assert not unread, "these files decide nothing, or their code is to be hashed"


def test_outcomes_of_this_tree_are_read_again_and_a_broken_line_is_not(verdicts: ModuleType, tmp_path: Path) -> None:
    path, one = tmp_path / "out.jsonl", subject(verdicts, "a")
    ledger = verdicts.Ledger("t", "vgpu", path)
    ledger.add(outcome(verdicts, one, 1, Verdict.PASS))
    ledger.add(outcome(verdicts, one, 2, Verdict.PASS, tree="other"))
    with path.open("a") as file:
        file.write('{"subject": "a#')
    again = verdicts.Ledger("t", "vgpu")
    again.read([path, tmp_path / "none.jsonl"])
    assert [known.seed for known in again.of(one)] == [1]


def test_an_honest_kernel_ends_at_a_refusal_and_a_wrong_one_at_its_second_pass(verdicts: ModuleType) -> None:
    ledger, honest, wrong = verdicts.Ledger("t", "vgpu"), subject(verdicts, "a"), subject(verdicts, "b", is_wrong=True)
    for seed, verdict in enumerate((Verdict.PASS, Verdict.FAULT, Verdict.FAIL)):
        assert not ledger.is_done(honest) and not ledger.is_done(wrong)
        ledger.add(outcome(verdicts, honest, seed, verdict))
        ledger.add(outcome(verdicts, wrong, seed, Verdict.PASS if seed != 1 else Verdict.FAIL))
    assert ledger.is_done(honest) and ledger.is_done(wrong)
    lines, is_good = verdicts.report([honest, wrong], ledger, verdicts.SMOKE)
    text = "\n".join(lines)
    assert not is_good and "refused: 1 of 2" in text and "passed more than once: 1 of 1" in text and "95 %" in text


def test_subjects_take_turns_and_what_is_known_or_has_no_time_is_left_out(verdicts: ModuleType) -> None:
    subjects = [subject(verdicts, name) for name in "abc"]
    ledger, rounds = verdicts.Ledger("t", "vgpu"), verdicts.Rounds(honest=2, wrong=2)
    waiting = list(verdicts.waiting_calls(subjects, ledger, rounds, time.monotonic() + 60))
    assert [one.name for one, _ in waiting] == ["a", "b", "c", "a", "b", "c"]
    ledger.add(outcome(verdicts, subjects[0], waiting[0][1], Verdict.PASS))
    ledger.add(replace(outcome(verdicts, subjects[1], waiting[1][1], Verdict.PASS), seconds=100.0))
    left = list(verdicts.waiting_calls(subjects, ledger, rounds, time.monotonic() + 60))
    assert [one.name for one, _ in left] == ["c", "a", "c"]
    assert not list(verdicts.waiting_calls(subjects, ledger, rounds, time.monotonic()))


def test_a_run_ends_at_its_time_with_evaluations_under_way(verdicts: ModuleType) -> None:
    ledger, rounds = verdicts.Ledger("t", "vgpu"), verdicts.SMOKE
    until = time.monotonic() + 0.5  # less than an evaluation takes
    verdicts.run([subject(verdicts, "a")], ledger, rounds, 2, until, EvaluationConfig(device="vgpu", until="check"))
    assert not ledger.found


@pytest.mark.parametrize(("wrong", "count", "bound"), [(0, 5000, 0.0005990), (1, 100, 0.0465588)])
def test_the_upper_bound(verdicts: ModuleType, wrong: int, count: int, bound: float) -> None:
    assert verdicts.upper_bound(wrong, count) == pytest.approx(bound, rel=1e-3)


@pytest.mark.slow
def test_the_smoke_form_refuses_no_honest_kernel(verdicts: ModuleType, tmp_path: Path) -> None:
    config = EvaluationConfig(device="vgpu", until="check")
    subjects = [*verdicts.wrong_subjects(), *verdicts.honest_subjects()]
    ledger = verdicts.Ledger(verdicts.tree_digest(), "vgpu", tmp_path / "out.jsonl")
    until = time.monotonic() + 60 * verdicts.SMOKE_MINUTES
    verdicts.run(subjects, ledger, verdicts.SMOKE, 2, until, config)
    lines, is_good = verdicts.report(subjects, ledger, verdicts.SMOKE)
    assert is_good and ledger.found, "\n".join(lines)
