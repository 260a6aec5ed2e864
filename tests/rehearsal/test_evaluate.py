"""Whole evaluations by a real GPU's judge, rehearsed: a search's, a claim's, a wrong kernel's, the published ones'."""

from pathlib import Path

import pytest
import torch
from stage import SEARCH

from warpsmith.evaluation.run import evaluate
from warpsmith.machines.cuda.player import Player
from warpsmith.machines.cuda.session import RepeatableCall
from warpsmith.machines.cuda.slot import Edge
from warpsmith.machines.rehearsed import TORCH_US, RehearsedMachine
from warpsmith.records import Defence, Direction, Reason, Verdict
from warpsmith.tasks.suite import suite_folder

torch.set_num_threads(1)
STAGES = ["static", "compile", "virtual", "check", "sanitizer", "record", "timing"]
KERNELS = sorted((Path(__file__).parents[2] / "kernels").glob("*/*.cu"))


def seed(task: str, direction: Direction = Direction.FORWARD) -> str:
    return (suite_folder(task) / f"seed_{direction}.cu").read_text()


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("task", ["softmax", "linear"])
def test_a_seed_goes_through_all_stages(task: str, direction: Direction) -> None:
    record = evaluate(task, seed(task, direction), direction, config=SEARCH)
    assert [one.stage for one in record.results] == STAGES
    assert record.concluded is Verdict.PASS, record.results[-1].detail
    assert record.environment.hardware == RehearsedMachine().hardware
    assert record.timing is not None
    (case,) = record.timing.cases
    assert {baseline.us for baseline in case.baselines.values()} == {TORCH_US}
    assert case.speedup is not None


def test_a_claim_is_timed_in_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, edges, play = list[int](), list[Edge](), Player.play

    def follow(player: Player, recorded: RepeatableCall) -> None:
        begun.append(id(player))
        edges.extend([recorded.edge] if recorded.edge else [])
        play(player, recorded)

    monkeypatch.setattr(Player, "play", follow)
    record = evaluate("softmax", seed("softmax"), config=SEARCH.replace(tier="claim"))
    assert len(set(begun)) == 6  # three before torch's windows and three after: it is short
    assert [edge.tensor for edge in edges] == [0], "once with its argument where the mapped memory ends or begins"
    assert record.concluded is Verdict.PASS, record.results[-1].detail
    assert record.timing is not None
    assert record.timing.tier == "claim"


def test_a_wrong_kernel_ends_at_the_check_where_nothing_came_before() -> None:
    source = seed("softmax").replace("expf(", "0.5f * expf(", 1)
    assert source != seed("softmax")
    record = evaluate("softmax", source, config=SEARCH.replace(without=frozenset({Defence.VIRTUAL})))
    assert record.concluded is Verdict.FAIL
    assert record.results[-1].stage == "check"
    assert record.results[-1].reason is Reason.WRONG_VALUE


@pytest.mark.slow
@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_published_kernel_passes(path: Path) -> None:
    record = evaluate(path.parent.name, path.read_text(), Direction(path.stem), config=SEARCH)
    assert record.concluded is Verdict.PASS, record.results[-1].detail
