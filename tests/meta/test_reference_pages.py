"""docs/verdicts.md has every verdict and reason, docs/environment.md every environment variable."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

import warpsmith
from warpsmith.base import CONFIDENCE
from warpsmith.cli._verdict import EXIT
from warpsmith.evaluation.stages import STAGES
from warpsmith.evaluation.stages.cuda import MOST_COUNTED
from warpsmith.evaluation.timing import rules, stage
from warpsmith.evaluation.timing.rules import STOP_CONFIDENCE
from warpsmith.machines.cuda.flush import FLUSH_BYTES
from warpsmith.records import FASTER_ABOVE, Reason, Verdict
from warpsmith.search import state
from warpsmith.search.selection import bandit, population, tuner

ROOT = Path(__file__).parents[2]
VERDICTS = (ROOT / "docs" / "verdicts.md").read_text()
ENVIRONMENT = (ROOT / "docs" / "environment.md").read_text()
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| (\w+) \| (.+?) \| (.+?) \|$", VERDICTS, re.MULTILINE)}
NAME = r"[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+"
NO_VARIABLES = {
    "ERR_NVGPUCTRPERM",
    "SUNPRO_DEPENDENCIES",
}  # an error of ncu; a variable that gcc reads, set for one process


def test_every_reason_has_one_row() -> None:
    assert sorted(ROWS) == sorted(Reason)


def test_every_verdict_has_its_exit_code() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d) \|$", VERDICTS, re.MULTILINE))
    assert shown == {verdict: str(EXIT[verdict]) for verdict in Verdict}


@pytest.mark.parametrize("reason", Reason)
def test_every_row_says_what_to_do(reason: Reason) -> None:
    verdict, meaning, advice = ROWS[reason]
    assert verdict in set(Verdict) - {Verdict.PASS} and len(meaning.split()) > 3 and len(advice.split()) > 1


def test_doubts_of_times_are_quarantines() -> None:
    text = Path(rules.__file__).read_text()
    doubted = {Reason[name] for name in re.findall(r"Reason\.([A-Z_]+)", text)}
    assert doubted and {ROWS[reason][0] for reason in doubted} == {"quarantine"}


def variables() -> set[str]:
    """Return every environment variable that the source reads or sets."""
    python = [path for path in (ROOT / "src" / "warpsmith").rglob("*.py") if path.name != "__init__.py"]
    native = [path for path in (ROOT / "src" / "warpsmith").rglob("*.c*") if path.suffix in (".c", ".cc", ".cpp")]
    found: set[str] = set()
    for path in python:
        text = path.read_text()
        found |= set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', text))
        found |= set(re.findall(rf'"({NAME})"', text)) if re.search(r"\benv(iron)?\b|_KEY", text) else set()
        found |= set(re.findall(r'"(WARPSMITH_\w+)"', text))
    for path in native:
        found |= set(re.findall(r'getenv\("(\w+)"\)', path.read_text()))
    return found - NO_VARIABLES


def test_every_variable_is_on_the_page() -> None:
    found = variables()
    assert {"WARPSMITH_HOME", "CUDA_VISIBLE_DEVICES", "OPENAI_API_KEY", "XDG_DATA_HOME"} <= found
    assert not sorted(name for name in found if f"`{name}`" not in ENVIRONMENT)


def test_the_constants_of_timing_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "timing.md").read_text()
    table = page.partition("## Constants")[2].partition("\n## ")[0]
    shown = dict(re.findall(r"^\| ([a-z ]+) \| ([\d.or ]+) \|", table, re.MULTILINE))
    assert shown == {
        "confidence level": f"{CONFIDENCE:g}",
        "level of the stop rule": f"{STOP_CONFIDENCE:g}",
        "least gain": f"{FASTER_ABOVE:g}",
        "least difference": f"{rules.APART_US:g}",
        "flush": str(FLUSH_BYTES >> 20),
        "slack of two clocks": f"{100 * rules.SLACK_SHARE:g} or {rules.SLACK_FLOOR_US:g}",
        "confirmed idle calls": f"{100 * rules.CONFIRMED_SHARE:g}",
        "flush disturbed": f"{100 * rules.FLUSH_SHARE:g}",
        "most disturbed calls": f"{100 * rules.MOST_DISCARDED:g}",
        "floor slack": f"{100 * (rules.FLOOR_SLACK - 1):g}",
        "too good": f"{rules.GOOD_LIMIT:g}",
        "credited launches": str(MOST_COUNTED),
    }
    search = (
        f"{stage.SEARCH.least} to {stage.SEARCH.most}, until the median's interval is {stage.SEARCH.width:.0%} wide"
    )
    claim = f"{stage.CLAIM.least} to {stage.CLAIM.most}, until {100 * stage.CLAIM.width:g} %"
    assert search.replace("1%", "1 %") in page and claim in page
    assert f"{stage.FEWER.least} to {stage.FEWER.most} for held-out shapes" in page


def test_the_numbers_of_parents_and_arms_are_those_of_the_code() -> None:
    page = " ".join((ROOT / "docs" / "search.md").read_text().split())
    assert f"holds up to {population.ROOM} correct kernels" in page
    assert f"each next one {population.PRESSURE:g} times the weight before it" in page
    assert f"With probability {Fraction(population.DIVERSE)} a cell is drawn" in page
    assert f"{bandit.EXPLORE:g} · sqrt(ln(1 + all tries)" in page and bandit.COST_POWER == 0.5
    assert f"at least {Fraction(bandit.LEAST_PRICE)}; an unknown price" in page
    assert f"Up to {tuner.EXHAUSTIVE} combinations" in page and f"is {state.RIGHT:g} plus log2" in page


def test_the_api_page_has_every_public_name() -> None:
    shown = set(re.findall(r"^::: warpsmith\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert set(warpsmith.__all__) - {"__version__"} <= shown


def test_the_names_that_the_glossary_gives_are_in_the_code() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    source = "\n".join(path.read_text() for path in (ROOT / "src" / "warpsmith").rglob("*.py"))
    named = re.findall(r"`(\w+)`", page)
    assert set(Verdict) <= set(named)
    assert not [name for name in named if not re.search(rf"\b{name}\b", source)]


def test_the_glossary_has_every_stage() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    row = re.search(r"^\| stage \| (.*) \|$", page, re.MULTILINE)
    assert row is not None
    assert {stage.name for stages in STAGES.values() for stage in stages} <= set(re.findall(r"\w+", row[1]))
