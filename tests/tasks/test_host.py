"""What a task's code raises becomes one sentence, before any process is confined."""

from pathlib import Path

import pytest

from warpsmith.records import Direction, Task, Trial
from warpsmith.tasks.formats.target import TaskFormat
from warpsmith.tasks.host.requests import Opening, TaskReply, TaskRequest, Verb
from warpsmith.tasks.host.server import TaskServer
from warpsmith.tasks.host.wire import decode

MODEL = (
    "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
)
DESCRIBE = TaskRequest(verb=Verb.DESCRIBE, seconds=60)


def server_of(folder: Path, text: str) -> TaskServer:
    path = folder / "broken.py"
    path.write_text(text)
    return TaskServer(Opening(form=TaskFormat.KERNELBENCH, path=str(path), name="", shapes=(), memory_bytes=1 << 30))


def inputs(*lines: str) -> str:
    return f"{MODEL}def get_inputs():\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{MODEL}def get_inputs(\n", "broken.py:6: not Python: '(' was never closed."),
        (f"{MODEL}raise ValueError('no')\ndef get_inputs(): pass\n", "broken.py:6: ValueError: no."),
        (inputs("return [torch.rand(4).view(3)]"), "broken.py:7: RuntimeError: shape '[3]' is invalid"),
        (inputs("return [torch.rand(4), 1]"), "broken.py: TypeError: Model.forward() takes 2 positional"),
        (
            MODEL.replace("x * 2", "x @ x") + "def get_inputs(): return [torch.rand(2, 3)]\n",
            "broken.py:5: RuntimeError",
        ),
        (inputs("import sys", "sys.exit(3)"), "broken.py:8: SystemExit: 3 in get_inputs. (A task file is imported"),
        (inputs("return get_inputs()"), "broken.py:7: RecursionError"),
        (inputs("return [torch.rand(25 * 10**9)]"), "arguments of 25000000000 elements; at most 8589934592"),
        (inputs("import nothing_of_that_name"), "broken.py:7: ModuleNotFoundError: No module named 'nothing_of_t"),
        (inputs("return []"), "broken.py: its inputs are empty"),
        (inputs("raise MemoryError"), "broken.py:7: MemoryError in get_inputs. A task may use 1 GiB of memory"),
    ],
)
def test_a_broken_file_gives_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    answer = server_of(tmp_path, text).respond(DESCRIBE)
    found = answer.payload.decode()
    assert answer.kind == TaskReply.REFUSED
    assert found.startswith(str(tmp_path / "broken.py"))
    assert said in found
    assert "\n" not in found


def test_a_good_file_answers_every_request(tmp_path: Path) -> None:
    server = server_of(tmp_path, inputs("return [torch.rand(4, 3)]"))
    described = server.respond(DESCRIBE)
    assert described.kind == TaskReply.DONE
    task = Task.parse(described.payload)
    trial = Trial(case=task.cases[0], seed=3)
    request = TaskRequest(verb=Verb.PROBLEM, seconds=60, direction=Direction.BACKWARD, trial=trial)
    assert decode(server.respond(request).payload).expected[0].shape == (4, 3)
    assert server.respond(TaskRequest(verb=Verb.FILTER, seconds=60)).kind == TaskReply.DONE


def test_the_process_stays_where_it_was(tmp_path: Path) -> None:
    before = Path.cwd()
    server_of(tmp_path, inputs("return [torch.rand(2)]")).respond(DESCRIBE)
    assert Path.cwd() == before
