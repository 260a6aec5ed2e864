"""Options of an evaluation and of a search from Python: a wrong one is a usage error that names it."""

from typing import Any

import pytest

import warpsmith
from warpsmith.base import UsageError
from warpsmith.evaluation import EvaluationConfig, grade
from warpsmith.records import Candidate, Direction, Group

CANDIDATE = Candidate(task="softmax", direction=Direction.FORWARD, source="x")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tier", "x"),
        ("tier", "x" * 100_000),
        ("cache", 1),
        ("effort", None),
        ("device", 3),
        ("gpu", b"H200"),
        ("trust", "yes"),
        ("cases", ("smoke",)),
        ("cases", (Group.SMOKE, "unknown")),
        ("without", ["link"]),
        ("baselines", "eager"),
        ("call_s", -1.0),
        ("call_s", 0),
        ("call_s", float("nan")),
        ("call_s", float("inf")),
        ("call_s", "60"),
        ("most_cases", -3),
        ("most_cases", 0),
        ("most_cases", 2.5),
        ("most_cases", 1 << 64),
        ("until", ["check"]),
    ],
)
def test_a_wrong_option_is_named(name: str, value: Any) -> None:
    for make in (
        lambda: EvaluationConfig(**{name: value}),
        lambda: warpsmith.evaluate("softmax", "x", **{name: value}),
    ):
        with pytest.raises(UsageError, match=f"Option {name} is ") as caught:
            make()
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tiers": "claim"}, "Option tiers does not exist"),
        ({"baselines": ("eager", "lazy")}, "Baseline lazy does not exist"),
        ({"direction": "sideways"}, "direction: "),
        ({"source": 5}, "source: "),
        ({"source": None, "language": "torch"}, "source: "),
        ({"task": None}, "task: "),
        ({"task": "x" * 100_000}, "task: "),
        ({"task": "x" * 300}, "cannot be opened"),
        ({"language": 7}, "language: "),
        ({"language": "Torch!"}, "language: "),
        ({"macros": {"N": 5}}, "macros.N: "),
        ({"macros": {"N" * 100_000: 5}}, "macros.N"),
        ({"macros": ["N=5"]}, "macros: "),
        ({"device": "tpu"}, "Device tpu does not exist"),
        ({"until": "polish", "device": "vgpu"}, "Stage polish does not exist"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        warpsmith.evaluate(**{"task": "softmax", "source": "x", **arguments})
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("seed", [-1, 1 << 63, 10**400, "5", 1.5])
def test_a_wrong_seed_is_named(seed: Any) -> None:
    with pytest.raises(UsageError, match=r"seeds.0: "):
        grade(CANDIDATE, EvaluationConfig(device="vgpu"), seed)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("generations", -1),
        ("proposals", 0),
        ("evaluate", "many"),
        ("budget_usd", -0.5),
        ("budget_minutes", float("nan")),
        ("direction", "sideways"),
        ("start", 5),
        ("task", ["softmax"]),
    ],
)
def test_a_wrong_option_of_a_search_is_named(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{'target' if name == 'task' else name}: "):
        warpsmith.optimize(**{"task": "softmax", name: value})


def test_a_number_that_python_does_not_print_is_named_by_its_type() -> None:
    with pytest.raises(UsageError, match="Option most_cases is a int"):
        EvaluationConfig(most_cases=-(10**5000))
