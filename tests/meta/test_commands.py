"""docs/commands.md has a section for every command, with every option that it takes."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "commands.md").read_text()


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripts_commands", ROOT / "scripts" / "commands.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_has_its_section_and_its_table() -> None:
    known = sorted(script().commands())
    assert sorted(re.findall(r"^### ([a-z -]+)$", PAGE, re.MULTILINE)) == known
    assert sorted(re.findall(r"<!-- options: ([a-z -]+) -->", PAGE)) == known


def test_every_section_shows_the_command_and_says_what_it_does() -> None:
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        name = section.partition("\n")[0]
        assert f"```sh\nwarpsmith {name}" in section, f"no example of {name}"
        prose = re.sub(r"```.*?```|<!--.*?<!-- end -->", "", section, flags=re.DOTALL)
        assert len(prose.split()) > 8, f"no word on {name}"


def test_the_tables_are_what_the_commands_take() -> None:
    assert script().filled(PAGE) == PAGE, "run: python scripts/commands.py"
