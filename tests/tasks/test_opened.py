"""Opening tasks that are trusted."""

import subprocess
import sys
from pathlib import Path

from warpsmith.records import Direction, Trial
from warpsmith.tasks.host import LocalTask, OpenOptions, open_task
from warpsmith.tasks.inputs import read_shape

FILE = Path(__file__).parent.parent / "foreign" / "modules" / "mine.py"


def test_describing_a_suite_task_loads_no_torch() -> None:
    code = (
        "import sys\nfrom warpsmith.tasks.host import open_task\n"
        "from warpsmith.languages import skeleton\n"
        "from warpsmith.records import Direction\n"
        "task = open_task('softmax').describe()\nassert skeleton(task, Direction.FORWARD)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_suite_task_has_problems_and_filters() -> None:
    with open_task("softmax") as task:
        case = task.describe().cases[0]
        assert task.problem(Direction.BACKWARD, Trial(case=case)).expected
        assert task.filter().task == "softmax"


def test_trust_runs_a_users_file_here() -> None:
    options = OpenOptions(trust=True, shapes=(read_shape("6x8"), read_shape("6x8")))
    with open_task(f"{FILE}:gate", options) as task:
        assert isinstance(task, LocalTask)
        assert task.describe().name == "mine_gate"
