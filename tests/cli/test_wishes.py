"""The options of a search: saved with the run as text, read again with their types, and changed by a resume."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.app.session import open_models, resumed_config
from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.llm import BudgetSpent, Prompt, ask_all
from warpsmith.records import Direction, Run
from warpsmith.search import SAVED, SearchConfig

CONFIG = SearchConfig(
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
                settings=CONFIG.settings(),
            )
        )
        yield opened


def test_every_wish_that_is_kept_is_read_again_with_its_type(archive: Archive) -> None:
    assert CONFIG.model_fields_set >= set(SAVED), "a new wish needs a value above"
    found = resumed_config(archive, SearchConfig(target="", run="one", resume=True))
    assert found == CONFIG.model_copy(update={"run": "one", "resume": True})


def test_what_is_asked_differently_now_counts(archive: Archive) -> None:
    found = resumed_config(
        archive, SearchConfig.from_options(target="", run="one", resume=True, generations=20, models="", goal=None)
    )
    assert (found.generations, found.models, found.goal) == (20, "", 1.25)
    with pytest.raises(UsageError, match="is of task swiglu, not softmax"):
        resumed_config(archive, SearchConfig(target="softmax", run="one", resume=True))


def test_what_nobody_asked_is_as_the_search_has_it() -> None:
    found = SearchConfig.from_options(target="swiglu", proposals=None)
    assert found == SearchConfig(target="swiglu") and found.model_fields_set == {"target"}


def test_the_command_says_what_is_not_as_usual() -> None:
    assert SearchConfig(target="swiglu", proposals=3, start=Path("k.cu")).command() == (
        "warpsmith optimize swiglu --proposals 3 --from k.cu"
    )
    assert SearchConfig(target="swiglu", run="r", who="somebody", elsewhere=True).command() == (
        "warpsmith ask r --out DIR --task swiglu --who somebody --elsewhere"
    )


def test_a_resumed_run_goes_on_with_what_is_left_of_its_budget() -> None:
    model = "openai-compatible:m,base_url=http://127.0.0.1:9,usd_per_mtok=10,max_tokens=4000"
    models = open_models(SearchConfig(target="swiglu", models=model, budget_usd=3.0), spent_usd=2.99)
    (error,) = ask_all([(one, Prompt(system="", user="", kind="propose")) for one in models])
    assert isinstance(error, BudgetSpent) and "0.0100 are left of the budget of 3." in str(error)
