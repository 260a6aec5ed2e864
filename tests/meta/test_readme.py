"""The README's commands, run in their order on the virtual GPU; the long ones on little."""

import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._commands import COMMANDS
from warpsmith.cli._main import run
from warpsmith.pool import stop_pool

ROOT = Path(__file__).parents[2]
SEED = Path(warpsmith.__file__).parent / "tasks" / "suite" / "softmax" / "seed_forward.cu"
VIRTUAL = ["--device", "vgpu"]
# What keeps a command short, or away from a GPU that may be here.
EXTRA = {
    "eval": VIRTUAL,
    "profile": VIRTUAL,
    "eval-batch": VIRTUAL,
    "baselines": ["softmax", "--direction", "forward", "--baselines", "eager"],
    "audit": [str(ROOT / "tests" / "honest" / "plain_style.cu"), *VIRTUAL],
    "calibrate": ["--sample", "1", "--dry-run", "--corpus", str(ROOT / "corpus"), "--out", "said.jsonl"],
    "pool": ["--evaluators", "1"],
    "optimize": [*VIRTUAL, "--run", "RUN", "--generations", "1", "--proposals", "1"],
    "ask": ["-n", "1"],
    "regrade": VIRTUAL,
}
# 1: a task of the folder is not worth a kernel, which is an answer; 3: without a GPU torch is not timed
CODES = {"tasks filter": (0, 1), "baselines": (0, 3)}


def commands() -> list[list[str]]:
    """The lines of the block that shows every command."""
    text = (ROOT / "README.md").read_text()
    block = text[text.index("## What you get") :].split("```sh\n", 1)[1].split("```", 1)[0]
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines()]


@pytest.fixture
def workplace(work_folder: Path, archive_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that the README names."""
    shutil.copy(SEED, "kernel.cu")
    Path("kernels/softmax").mkdir(parents=True)
    shutil.copy(SEED, "kernels/softmax/forward.cu")
    problems = sorted((ROOT / "tests" / "foreign" / "kernelbench").glob("*.py"))[:1]
    Path("path/to/KernelBench/level1").mkdir(parents=True)
    shutil.copy(problems[0], "path/to/KernelBench/level1")
    Path("F.jsonl").write_text(json.dumps({"task": "softmax", "path": "kernel.cu"}) + "\n")
    with tempfile.TemporaryDirectory() as folder:  # a short path: a socket's name has at most 107 bytes
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield work_folder
        stop_pool()


def test_the_block_has_every_command() -> None:
    assert {words[0] for words in commands()} == {row.name for row in COMMANDS}


def test_every_line_works(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands():
        bare, _, out = " ".join(words).partition(" > ")
        argv = [*bare.split(), *EXTRA.get(words[0], [])]
        if words[0] == "export":
            argv[argv.index("--to") + 1] = "PACKAGE"  # DIR has the questions of `ask` by now
        code, shown = run(argv), capsys.readouterr()
        assert code in CODES.get(" ".join(words[:2]), (0,)), f"{bare}: {code}\n{shown.out[-2000:]}{shown.err[-2000:]}"
        if out:
            Path(out).write_text(shown.out)
    names = {str(path.relative_to(workplace)) for path in workplace.rglob("*") if path.is_file()}
    assert {"R.jsonl", "report.html", "DIR/ask.json", "PACKAGE/pyproject.toml"} <= names
    assert re.search(r'"verdict":"pass"', Path("R.jsonl").read_text())
