"""The checks of the built documentation site, on small sites, and its navigation."""

import importlib.util
import re
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]


@pytest.fixture
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_pages", ROOT / "scripts" / "pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def site(folder: Path, **bodies: str) -> Path:
    for name, body in bodies.items():
        (folder / f"{name}.html").write_text(f"<html><body>{body}</body></html>")
    return folder


def test_a_site_without_problems(pages: ModuleType, tmp_path: Path) -> None:
    found = site(tmp_path, index='<a href="a.html#part">a</a>', a='<h2 id="part">b</h2><a href="b.html">b</a>', b="")
    assert list(pages.problems(found)) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="gone.html">x</a>', "index.html links to gone.html, which does not exist"),
        ('<a href="a.html#gone">x</a>', "index.html links to a.html#gone, which has no such heading"),
        ('<img src="gone.png"><a href="a.html">a</a>', "index.html links to gone.png, which does not exist"),
        ('<script src="https://cdn.example/x.js"></script><a href="a.html">a</a>', "loads https://cdn.example/x.js"),
        ("", "a.html is more than 2 clicks from the front"),
    ],
)
def test_each_problem_is_named(pages: ModuleType, tmp_path: Path, body: str, problem: str) -> None:
    found = list(pages.problems(site(tmp_path, index=body, a="")))
    assert any(problem in line for line in found)


def test_a_page_is_at_most_two_clicks_away(pages: ModuleType, tmp_path: Path) -> None:
    chain = site(tmp_path, index='<a href="a.html">a</a>', a='<a href="b.html">b</a>', b='<a href="c.html">c</a>', c="")
    assert list(pages.problems(chain)) == ["c.html is more than 2 clicks from the front"]


def test_links_to_source_files_become_text(pages: ModuleType) -> None:
    page = ROOT / "docs" / "timing.md"
    text = "[rules](../src/warpsmith/__init__.py) [design](../design/replay.md#x) [web](https://example.org)"
    known = {ROOT / "design" / "replay.md"}
    staged = pages.LINK.sub(partial(pages._link, page, known), text)
    assert staged == "rules [design](../design/replay.md#x) [web](https://example.org)"


def test_the_navigation_has_every_page() -> None:
    named = set(re.findall(r"[\w/.-]+\.md", NAVIGATION))
    written = {*(ROOT / "docs").rglob("*.md"), *(ROOT / "design").glob("*.md")}
    assert {str(page.relative_to(ROOT)) for page in written} <= named
    assert all((ROOT / page).exists() for page in named)


def test_every_version_of_the_site_is_in_the_constraints() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    pinned = re.findall(r'"([\w-]+==[\d.]+)"', re.search(r"^docs = \[(.*)\]$", project, re.MULTILINE)[1])  # type: ignore[index]
    assert pinned and set(pinned) <= set((ROOT / "constraints.txt").read_text().splitlines())
