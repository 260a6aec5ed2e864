"""The documents say what is there: commands, packages, links, reasons."""

import re
from pathlib import Path

import pytest

from warpsmith.cli._commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "AGENTS.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "design").glob("*.md")),
]
PACKAGES = {path.parent.name for path in (ROOT / "src" / "warpsmith").glob("*/__init__.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"(?:^|[`\s])warpsmith ([a-z][a-z-]*)\b", "\n".join(_code(page.read_text()))))
    assert named <= {row.name for row in COMMANDS}


def _code(text: str) -> list[str]:
    """The lines of code blocks and what stands in backticks."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    return [*blocks, *re.findall(r"`(warpsmith [^`]*)`", text)]


def test_the_readme_shows_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    assert not [row.name for row in COMMANDS if f"warpsmith {row.name}" not in text]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        if not target.startswith("http"):
            found = page.parent / target if target else page
            assert found.exists(), f"{page.name} links to {target}"
            assert not heading or heading in _headings(found), f"{page.name} links to {target}#{heading}"


def _headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings as the site and GitHub make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_the_map_has_every_package() -> None:
    text = (ROOT / "AGENTS.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == PACKAGES


def test_the_files_that_the_table_of_changes_names_exist() -> None:
    text = (ROOT / "AGENTS.md").read_text()
    table = text[text.index("## Where to change what") : text.index("## Traps")]
    named = {word for word in re.findall(r"`([\w./-]+)`", table) if "/" in word}
    missing = {name for name in named if not ((ROOT / name).exists() or (ROOT / "src/warpsmith" / name).exists())}
    assert len(named) > 30 and not missing
