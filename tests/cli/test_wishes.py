"""What a user asked of a search: kept with the run as text, read again with its types, and asked differently later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.app.search import models_of
from warpsmith.app.wishes import KEPT, Wishes, command_of, resumed
from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.llm import BudgetSpent, Prompt, ask_all
from warpsmith.records import Direction, Run
from warpsmith.search import Limits, Shape

WISHES = Wishes(
    target="swiglu",
    direction=Direction.BACKWARD,
    device="vgpu",
    gpu="H100",
    models="scripted",
    generations=0,
    proposals=3,
    evaluate=2,
    drafts=5,
    attempts=6,
    patience=7,
    budget_usd=0.5,
    budget_minutes=1.5,
    budget_evaluations=9,
    goal=1.25,
    roofline=0.75,
    reviewers="memory",
    seed=11,
    record=Path("/tmp/record.jsonl"),
    replay=Path("/tmp/replay.jsonl"),
    who="somebody",
    elsewhere=True,
)


@pytest.fixture
def archive(archive_url: str) -> Iterator[Archive]:
    with Archive.open() as opened:
        opened.start(
            Run(
                name="one",
                target="swiglu",
                task="swiglu",
                direction=Direction.BACKWARD,
                device="vgpu",
                seed=11,
                settings=WISHES.settings(),
            )
        )
        yield opened


def test_every_wish_that_is_kept_is_read_again_with_its_type(archive: Archive) -> None:
    assert WISHES.model_fields_set >= set(KEPT), "a new wish needs a value above"
    found = resumed(archive, Wishes(target="", run="one", resume=True))
    assert found == WISHES.model_copy(update={"run": "one", "resume": True})


def test_what_is_asked_differently_now_counts(archive: Archive) -> None:
    found = resumed(archive, Wishes.asked(target="", run="one", resume=True, generations=20, models="", goal=None))
    assert (found.generations, found.models, found.goal) == (20, "", 1.25)
    with pytest.raises(UsageError, match="is of task swiglu, not softmax"):
        resumed(archive, Wishes(target="softmax", run="one", resume=True))


def test_what_nobody_asked_is_as_the_search_has_it() -> None:
    usual, shape, limits = Wishes.asked(target="swiglu", proposals=None), Shape(), Limits()
    numbers = (usual.proposals, usual.evaluate, usual.drafts, usual.attempts)
    assert numbers == (shape.proposals, shape.evaluate, shape.drafts, shape.attempts)
    assert (usual.generations, usual.patience) == (limits.generations, limits.patience)
    assert usual.direction is Direction.FORWARD


def test_the_command_says_what_is_not_as_usual() -> None:
    assert command_of(Wishes(target="swiglu", proposals=3, start=Path("k.cu"))) == (
        "warpsmith optimize swiglu --proposals 3 --from k.cu"
    )
    assert command_of(Wishes(target="swiglu", run="r", who="somebody", elsewhere=True)) == (
        "warpsmith ask r --out DIR --task swiglu --who somebody --elsewhere"
    )


def test_a_resumed_run_goes_on_with_what_is_left_of_its_budget() -> None:
    model = "openai-compatible:m,base_url=http://127.0.0.1:9,usd_per_mtok=10,max_tokens=4000"
    models = models_of(Wishes(target="swiglu", models=model, budget_usd=3.0), spent_usd=2.99)
    (error,) = ask_all([(one, Prompt(system="", user="", kind="propose")) for one in models])
    assert isinstance(error, BudgetSpent) and "0.0100 are left of the budget of 3." in str(error)
