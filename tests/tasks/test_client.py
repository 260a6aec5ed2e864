"""Tasks whose code runs confined: what comes through, and what a broken file says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from warpsmith.base import UsageError
from warpsmith.records import Direction, Trial
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget, find
from warpsmith.tasks.host import LocalTask, OpenOptions, TaskClient, open_task
from warpsmith.tasks.host.client import task_files, task_policy
from warpsmith.tasks.suite import suite_folder

FOREIGN = Path(__file__).parent.parent / "foreign"
MODEL = (
    "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
)
LIMITED = OpenOptions(seconds=60, memory_bytes=512 << 20)
HASTY = OpenOptions(seconds=2)


def said_of(folder: Path, text: str, options: OpenOptions = LIMITED) -> str:
    """The one error that a broken task gives."""
    path = folder / "broken.py"
    path.write_text(text)
    with pytest.raises(UsageError) as caught, open_task(str(path), options) as task:
        task.describe()
    return str(caught.value)


def inputs(*lines: str) -> str:
    return f"{MODEL}def get_inputs():\n" + "".join(f"    {line}\n" for line in lines)


@pytest.fixture(scope="module")
def pool() -> Iterator[TaskClient]:
    with open_task(str(FOREIGN / "robust_kbench" / "gate_pool")) as task:
        assert isinstance(task, TaskClient)
        yield task


def test_a_foreign_task_is_confined_and_ours_is_not(pool: TaskClient) -> None:
    assert {"net_ns", "landlock", "seccomp"} <= set(pool.confined.achieved)
    with open_task("layernorm") as task:
        assert isinstance(task, LocalTask)


@pytest.mark.parametrize("direction", list(Direction))
def test_the_same_problem_comes_from_either_side(pool: TaskClient, direction: Direction) -> None:
    target = find(str(FOREIGN / "robust_kbench" / "gate_pool"))
    local = LocalTask(target)
    assert pool.describe() == local.describe()
    for case in pool.describe().cases:
        trial = Trial(case=case, seed=11)
        here, there = local.problem(direction, trial), pool.problem(direction, trial)
        for a, b in zip(here.expected + here.native, there.expected + there.native, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
        assert [type(value) for value in here.arguments] == [type(value) for value in there.arguments]


def test_filters_run_beside_the_code(pool: TaskClient) -> None:
    report = pool.filter()
    assert report.task == pool.describe().name
    assert report.results


def test_our_own_form_at_another_path_is_confined(tmp_path: Path) -> None:
    source = suite_folder("softmax")
    for name in ("task.toml", "task.py"):
        (tmp_path / name).write_text((source / name).read_text())
    with open_task(str(tmp_path)) as task:
        assert isinstance(task, TaskClient)
        found = task.problem(Direction.BACKWARD, Trial(case=task.describe().cases[0], seed=2))
    assert found.expected[0].dtype is torch.float64


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ("import os", "os._exit(3)"),
            "broken.py: the process that ran this task ended at describe: it ended with exi",
        ),
        (("import ctypes", "ctypes.string_at(0)"), "broken.py:8: the process that ran this task ended at describe: it"),
        (("while True: print('x' * 10**6)",), "it printed more than 4 MiB"),
        (("bytearray(100 << 30)",), "broken.py:7: MemoryError in get_inputs. A task may use 512 MiB of memory"),
        (("torch.empty(100 << 30, device='cpu').fill_(1)",), "A task may use 512 MiB of memory"),
        (("kept = []", "while True: kept.append(b'x' * (1 << 26))"), "A task may use 512 MiB of memory"),
        (("import socket", "socket.create_connection(('1.1.1.1', 80), 1)"), "broken.py:8: PermissionError"),
    ],
    ids=["exit", "crash", "print", "huge_bytes", "huge_filled", "growing", "network"],
)
def test_what_python_cannot_catch_gives_one_clear_error(tmp_path: Path, lines: tuple[str, ...], said: str) -> None:
    found = said_of(tmp_path, inputs(*lines))
    assert str(tmp_path / "broken.py") in found
    assert said in found
    assert "\n" not in found


def test_an_hour_of_sleep_ends_at_the_limit(tmp_path: Path) -> None:
    found = said_of(tmp_path, inputs("import time", "time.sleep(3600)"), HASTY)
    assert "broken.py:8: describe took longer than 2 s" in found


def test_files_outside_its_folder_are_hidden(tmp_path: Path) -> None:
    outside, inside = tmp_path / "secret.txt", tmp_path / "task"
    outside.write_text("secret")
    inside.mkdir()
    found = said_of(inside, inputs("from pathlib import Path", f"Path({str(outside)!r}).read_text()"))
    assert "FileNotFoundError" in found


def test_a_module_beside_the_file_can_be_imported_and_data_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text("WIDTH = 6\n")
    (tmp_path / "diary.txt").write_text("private")
    path = tmp_path / "fine.py"
    model = MODEL.replace("x * 2", "(x * 2).argmax(-1)")
    path.write_text(f"from near import WIDTH\n{model}def get_inputs(): return [torch.rand(4, WIDTH)]\n")
    shown = task_files(TaskTarget(TaskFormat.KERNELBENCH, path))
    assert tmp_path / "near.py" in shown
    assert tmp_path / "diary.txt" not in shown
    with open_task(str(path)) as task:
        trial = Trial(case=task.describe().cases[0])
        assert task.problem(Direction.FORWARD, trial).native[0].shape == (4,)
        with pytest.raises(UsageError, match="has no backward direction; it has forward"):
            task.problem(Direction.BACKWARD, trial)


def test_junk_on_the_answer_channel_is_the_tasks_fault(tmp_path: Path) -> None:
    spray = (
        "import os",
        "for fd in range(3, 1024):",
        "    try: os.write(fd, b'forged' * 99)",
        "    except OSError: pass",
    )
    assert "its code wrote on the channel" in said_of(tmp_path, inputs(*spray, "return [torch.rand(4)]"))


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("b'{}'", "its code wrote on the channel that carries its answers, or changed them: name: Field required"),
        ("suite_program('softmax').task.text().encode()", "a name, version or origin that is not its own"),
    ],
)
def test_a_forged_answer_is_validated(tmp_path: Path, payload: str, said: str) -> None:
    forge = (
        "import os",
        "from warpsmith.isolation.frames import Frame, encode",
        "from warpsmith.tasks.suite import suite_program",
        f"answer = encode(Frame(1, {payload}))",
        "for fd in range(100, 1024):",
        "    try: os.write(fd, answer)",
        "    except OSError: pass",
    )
    assert said in said_of(tmp_path, inputs(*forge, "return [torch.rand(4)]"))


def test_a_forked_copy_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "forks.py"
    path.write_text(inputs("import os", "os.fork()", "return [torch.rand(4)]"))
    with open_task(str(path)) as task:
        case = task.describe().cases[0]
        for seed in range(3):
            assert task.problem(Direction.FORWARD, Trial(case=case, seed=seed)).expected[0].shape == (4,)


def test_packages_on_the_judges_path_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, task = tmp_path / "bundle", tmp_path / "task"
    bundle.mkdir()
    task.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(bundle))
    shown = task_policy(TaskTarget(TaskFormat.OWN, task), OpenOptions())
    assert str(bundle) in shown.env["PYTHONPATH"].split(":")
    assert {bundle, task} <= set(shown.read)
