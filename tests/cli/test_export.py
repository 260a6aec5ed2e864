"""`warpsmith export` from a run, from kernels of both passes and from a record, to a folder; and what it refuses."""

import json
from pathlib import Path

import pytest

import warpsmith
from warpsmith.archive import Archive, Run
from warpsmith.cli._main import run
from warpsmith.languages import skeleton
from warpsmith.records import Candidate, Direction, Record
from warpsmith.search.fake import fake_record
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.host import open_task

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
FORWARD, BACKWARD = (SUITE / "softmax" / f"seed_{direction}.cu" for direction in Direction)


def passed(path: Path, **macros: str) -> Record:
    """A record of a seed that passed, modelled."""
    direction = Direction.BACKWARD if "backward" in path.stem else Direction.FORWARD
    candidate = Candidate(task="softmax", direction=direction, source=path.read_text(), macros=macros)
    version = read_task(SUITE / "softmax").version
    return fake_record(candidate, 4.0).model_copy(update={"task_version": version})


@pytest.fixture
def archive(archive_url: str) -> Archive:
    """Both seeds and a run whose best is a tuned one."""
    made = Run(name="mine", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu")
    with Archive.open(archive_url) as archive:
        archive.add(None, passed(FORWARD))
        archive.add(None, passed(BACKWARD))
        archive.start(made)
        archive.add("mine", passed(FORWARD, BLOCK="128"))
        archive.start(made.model_copy(update={"name": "empty"}))
    return archive


@pytest.mark.usefixtures("archive")
def test_a_run_s_best_becomes_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "my package"
    assert run(["export", "mine", "--to", str(to)]) == 0
    shown = capsys.readouterr().out
    assert f"pip install '{to}'\npytest '{to}/tests'" in shown and "softmax_kernel, forward" in shown
    assert "#define BLOCK 128" in (to / "src/softmax_kernel/kernels/forward_unit.cu").read_text()
    assert "4.00 µs by a model of the GPU" in (to / "README.md").read_text()
    assert len(json.loads((to / "tests/examples.json").read_text())["cases"]) == 5


@pytest.mark.usefixtures("archive")
def test_two_kernels_become_one_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "package"
    assert run(["export", str(BACKWARD), str(FORWARD), "--to", str(to), "--name", "fast_softmax", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["directions"] == ["forward", "backward"] and said["folder"] == str(to)
    assert sorted(said["files"]) == sorted(str(path.relative_to(to)) for path in to.rglob("*") if path.is_file())
    assert "register_autograd" in (to / "src/fast_softmax/__init__.py").read_text()


def test_a_record_becomes_a_package(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(passed(FORWARD).text())
    assert run(["export", str(tmp_path / "r.json"), "--to", str(tmp_path / "package")]) == 0
    assert (tmp_path / "package/src/softmax_kernel/record_forward.json").read_text().strip() == passed(FORWARD).text()


def test_a_kernelbench_problem_becomes_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = Path(__file__).parents[1] / "foreign" / "kernelbench" / "1_Row_scale.py"
    with open_task(str(target)) as opened:
        task = opened.describe()
    candidate = Candidate(task=task.name, direction=Direction.FORWARD, source=skeleton(task, Direction.FORWARD))
    record = fake_record(candidate, 4.0).model_copy(update={"task_version": task.version})
    (tmp_path / "r.json").write_text(record.text())
    to = tmp_path / "package"
    assert run(["export", str(tmp_path / "r.json"), "--task", str(target), "--to", str(to), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "kernel_1_row_scale"
    assert "functional_call" in (to / "src/kernel_1_row_scale/reference.py").read_text()


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["empty"], 4, "no kernel that was right and timed"),
        (["mien"], 2, "Did you mean mine"),
        ([str(FORWARD), "-DBLOCK=512"], 2, "no record in which"),
        ([str(FORWARD), "mine"], 2, "2 kernels of one direction"),
        ([str(FORWARD), "--name", "a-b"], 2, "Package name 'a-b'"),
        (["absent.cu", "--task", "softmax"], 2, "does not exist"),
    ],
)
def test_what_cannot_be_exported_is_said(
    words: list[str], code: int, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", *words, "--to", str(tmp_path / "package")]) == code
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "package").exists()


@pytest.mark.usefixtures("archive")
def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert run(["export", "mine", "--to", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert run(["export", "mine", "--to", str(tmp_path / "notes.txt")]) == 2
    assert "notes.txt is a file. Name a new folder" in capsys.readouterr().err


def test_a_kernel_outside_of_a_task_s_folder_needs_its_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text(FORWARD.read_text())
    assert run(["export", str(kernel), "--to", str(tmp_path / "package")]) == 2
    assert "Name its task with --task" in capsys.readouterr().err
