"""A kernel's file as a candidate: what its name and its text tell, and what is named instead."""

from pathlib import Path

import pytest

import warpsmith
from warpsmith.app import read_kernel
from warpsmith.records import Direction, Language

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"


@pytest.mark.parametrize(
    ("name", "direction", "language"),
    [
        ("seed_forward.cu", Direction.FORWARD, Language.TORCH),
        ("seed_forward.plain.cu", Direction.FORWARD, Language.PLAIN),
        ("seed_backward.cu", Direction.BACKWARD, Language.TORCH),
    ],
)
def test_the_name_tells_the_direction_and_the_text_the_style(
    name: str, direction: Direction, language: Language
) -> None:
    found = read_kernel(SUITE / "swiglu" / name, "swiglu", macros={"BLOCK": "64"})
    assert (found.task, found.direction, found.language) == ("swiglu", direction, language)
    assert found.source == (SUITE / "swiglu" / name).read_text() and found.macros == {"BLOCK": "64"}


def test_what_is_named_counts() -> None:
    found = read_kernel(SUITE / "swiglu" / "seed_forward.cu", "swiglu", Direction.BACKWARD, Language.PLAIN)
    assert (found.direction, found.language) == (Direction.BACKWARD, Language.PLAIN)


def test_a_macro_that_the_text_never_mentions_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text("#ifndef BLOCK\n#define BLOCK 128\n#endif\n")
    read_kernel(kernel, "swiglu", macros={"BLOCK": "64"})
    assert not caplog.text
    read_kernel(kernel, "swiglu", macros={"BLOKC": "64"})
    assert "never mentions the macro BLOKC" in caplog.text and "Did you mean BLOCK?" in caplog.text
