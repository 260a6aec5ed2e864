"""What the text of a source says of files, comments aside."""

import pytest

from warpsmith.languages.nvcc.source import check_files, exported_directions
from warpsmith.records import Reason


@pytest.mark.parametrize(
    "source",
    ["// .incbin of a file\nint x;", "/* asm(\".incbin '/etc/passwd'\") */", "int incbin; // no such thing"],
)
def test_words_in_comments_read_nothing(source: str) -> None:
    assert check_files(source) is None


def test_an_incbin_in_a_string_is_told_with_its_line() -> None:
    found = check_files('/* two\nlines */\nasm(".incbin \\"/etc/passwd\\"");')
    assert found is not None
    assert found.reason is Reason.FORBIDDEN_FILE
    assert "/etc/passwd" in found.detail
    assert "line 3" in found.detail


@pytest.mark.usefixtures("linear_time")
@pytest.mark.parametrize("opening", ["/* ", '"\\', "// ", 'R"('])
def test_a_megabyte_of_openings_keeps_nobody_busy(opening: str) -> None:
    source = opening * ((1 << 20) // len(opening))
    assert check_files(source) is None and exported_directions(source) == ()
