"""The evaluator process of a pool: how long it keeps the task process of a foreign task; one real pool."""

import tempfile
from pathlib import Path

import pytest

from warpsmith.base import HarnessError
from warpsmith.evaluation import EvaluationConfig, grade
from warpsmith.pool import find_pool, start_pool, stop_pool
from warpsmith.pool.evaluator import MOST_EVALUATIONS, TaskKeeper
from warpsmith.records import Candidate, Verdict
from warpsmith.tasks.formats import TaskTarget
from warpsmith.tasks.host import LocalTask, OpenOptions, OpenTask

MODULE = "import torch\n\ndef inputs():\n    return [torch.randn(4)]\n\ndef double(x):\n    return x * {factor}\n"
SEED = Path(__file__).parents[2] / "src/warpsmith/tasks/suite/softmax/seed_forward.cu"


class Starts:
    """Counts how often a task process is started and ended."""

    def __init__(self) -> None:
        self.started, self.ended = list[str](), 0

    def __call__(self, target: TaskTarget, options: OpenOptions) -> OpenTask:
        starts = self

        class Opened(LocalTask):
            def __exit__(self, *_: object) -> None:
                starts.ended += 1

        self.started.append(target.label)
        return Opened(target, options.shapes)


def use(keeper: TaskKeeper, path: Path) -> None:
    with keeper.open(f"{path}:double", OpenOptions()):
        pass


def test_a_task_process_serves_one_text_and_is_renewed(tmp_path: Path) -> None:
    path, starts = tmp_path / "mine.py", Starts()
    path.write_text(MODULE.format(factor=2))
    keeper = TaskKeeper(starts)
    for _ in range(MOST_EVALUATIONS):
        use(keeper, path)
    assert (len(starts.started), starts.ended) == (1, 0)
    use(keeper, path)
    assert (len(starts.started), starts.ended) == (2, 1), "it has served its number of evaluations"
    path.write_text(MODULE.format(factor=3))
    use(keeper, path)
    assert (len(starts.started), starts.ended) == (3, 2), "the text is another"
    with pytest.raises(HarnessError), keeper.open(f"{path}:double", OpenOptions()):
        raise HarnessError("the task process failed")
    assert starts.ended == 3
    use(keeper, path)
    keeper.renew()
    assert (len(starts.started), starts.ended) == (4, 4)


def test_a_task_of_ours_is_never_kept() -> None:
    starts = Starts()
    keeper = TaskKeeper(starts)
    for _ in range(2):
        with keeper.open("softmax", OpenOptions()):
            pass
    assert (starts.started, starts.ended) == (["softmax", "softmax"], 2)


@pytest.mark.parametrize(
    ("until", "word", "other"),
    [("compile", "max(", "undeclared("), pytest.param("check", "max(", "min(", marks=pytest.mark.slow)],
)
def test_a_real_pool_gives_the_verdict_of_this_process(
    monkeypatch: pytest.MonkeyPatch, until: str, word: str, other: str
) -> None:
    right = Candidate.from_fields(
        task="softmax", direction="forward", source=SEED.read_text(), language="torch", macros={}
    )
    wrong = right.model_copy(update={"source": right.source.replace(word, other)})
    config = EvaluationConfig(device="vgpu", until=until)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        try:
            start_pool(1)
            pool = find_pool()
            assert pool is not None
            for candidate, verdict in ((right, Verdict.PASS), (wrong, Verdict.FAIL)):
                pooled, here = pool.grade(candidate, config, seed=7), grade(candidate, config, seed=7)
                assert pooled.results[-1].verdict is here.results[-1].verdict is verdict
                assert [one.reason for one in pooled.results] == [one.reason for one in here.results]
            assert pool.status().done == 2
        finally:
            stop_pool()
