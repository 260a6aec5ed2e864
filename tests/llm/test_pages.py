"""docs/models.md names every provider, setting and failure, with the defaults that are in the code."""

import re
from pathlib import Path

import pytest

from warpsmith.llm import PROVIDERS, Patience, RequestFailed, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)}


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_every_provider_is_shown_with_its_variables(provider: object) -> None:
    row = next(one for one in PROVIDERS if one is provider)
    assert all(f"`{variable}`" in ROWS[row.name][0] for variable in row.keys)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_shown_with_its_default(name: str) -> None:
    default = getattr(Settings(), name)
    assert default is None or ROWS[name][0] == f"{default:g}"


@pytest.mark.parametrize("kind", RequestFailed.__subclasses__())
def test_every_failure_is_shown_with_its_tries(kind: type[RequestFailed]) -> None:
    said = ROWS[kind.__name__][1]
    known = {1: "no", 2: "twice in all", 3: "up to 3 times in all", None: "yes"}
    assert said.startswith(known[kind.tries])


def test_the_pauses_are_those_of_the_code() -> None:
    usual = Patience()
    assert f"from {usual.first_s:g} s to {usual.longest_s:g} s" in PAGE
    assert f"up to {usual.most_s:g} s" in PAGE
