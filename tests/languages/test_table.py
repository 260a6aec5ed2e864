"""The table of languages: a toy language proves that a new one touches nothing else."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from warpsmith.app import first_candidate, write_kernel
from warpsmith.base import UsageError
from warpsmith.cli._main import run
from warpsmith.evaluation import EvaluationConfig, evaluate
from warpsmith.languages import add_language, find_language, language_of, languages, suffixes
from warpsmith.languages.nvcc import Compiled, CompileOptions, compile
from warpsmith.records import Candidate, Direction, EvaluationOptions, Language, Signature, Verdict
from warpsmith.records.fake import fake_timing, timed_record
from warpsmith.search.proposals.answer import Draft, UnusableProposal, read_answer
from warpsmith.tasks.suite import suite_folder

PLAIN_SEED = (suite_folder("swiglu") / "seed_forward.plain.cu").read_text()


@dataclass(frozen=True)
class ToyCompiler:
    """Compiles a toy text: the word `toy` on the first line, then CUDA C++ in the plain form with `#` comments."""

    def compile(
        self, candidate: Candidate, signature: Signature | None = None, options: CompileOptions | None = None
    ) -> Compiled:
        source = re.sub(r"(?m)^# ", "// ", candidate.source.removeprefix("toy\n"))
        plain = candidate.model_copy(update={"source": source, "language": Language.PLAIN})
        return compile(plain, signature, options)


TOY = replace(
    find_language(Language.PLAIN),
    key="toy",
    title="a toy file",
    suffix=".toy",
    fences=("toy",),
    comment="#",
    kernel=re.compile(r"\Atoy$", re.MULTILINE),
    opening="toy",
    compiler=ToyCompiler(),
    recognizes=lambda source: source.startswith("toy\n"),
    skeleton=lambda _task, direction: f"toy\n# {direction}\n",
)
SOURCE = "toy\n# a kernel\n" + PLAIN_SEED


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    with add_language(TOY):
        yield


def test_a_source_is_recognized_by_its_text_and_by_the_suffix_of_its_file() -> None:
    assert language_of(SOURCE) == "toy"
    assert language_of(PLAIN_SEED) == Language.PLAIN
    assert language_of("anything", ".toy") == "toy"
    assert language_of(SOURCE, ".cu") == Language.PLAIN
    assert suffixes() == (".cu", ".toy")


def test_a_kernel_of_a_new_language_is_evaluated() -> None:
    record = evaluate("swiglu", SOURCE, config=EvaluationConfig(device="vgpu"))
    assert record.concluded is Verdict.PASS, record.results[-1].detail
    assert record.candidate.language == "toy"


def test_the_command_line_takes_its_files_and_prints_its_skeleton(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tmp_path / "forward.toy"
    kernel.write_text(SOURCE)
    assert run(["compile", str(kernel), "--task", "swiglu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"
    assert run(["tasks", "show", "swiglu", "--skeleton", "--language", "toy"]) == 0
    assert capsys.readouterr().out == "toy\n# forward\n"


def test_a_search_begins_with_its_files_and_reads_its_answers(tmp_path: Path) -> None:
    kernel = tmp_path / "forward.toy"
    kernel.write_text(SOURCE)
    first = first_candidate("swiglu", Direction.FORWARD, kernel)
    assert first is not None and first.language == "toy"
    draft = read_answer(f"Name: k\n\n```toy\n{SOURCE}```\n", key="toy")
    assert isinstance(draft, Draft) and draft.code == SOURCE
    assert isinstance(read_answer(f"```cuda\n{PLAIN_SEED}```\n", key="toy"), UnusableProposal)


def test_its_best_kernel_is_written_with_its_suffix_and_its_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    candidate = Candidate(task="swiglu", direction=Direction.FORWARD, source=SOURCE, language="toy")
    proven = timed_record(candidate, fake_timing())
    assert write_kernel("run", proven).name == "best.toy"
    partial = proven.model_copy(update={"options": EvaluationOptions(is_seed_given=True)})
    written = write_kernel("run", partial)
    assert written.name == "best-unproven.toy" and written.read_text().startswith("# UNPROVEN: ")


def test_an_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"Language 'tory' does not exist\. Did you mean"):
        evaluate("swiglu", SOURCE, language="tory")
    with pytest.raises(UsageError, match="exists already"), add_language(TOY):
        pass
    assert list(languages()) == ["torch", "plain", "toy"]
