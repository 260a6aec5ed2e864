"""A user's path may lead to anything: regular files are read, up to a limit; everything else is refused at once."""

import os
import socket
from pathlib import Path

import pytest

from warpsmith.base import UsageError, check_regular, check_writable, read_file, read_text, write_atomic

LIMIT = 1000


def irregular(folder: Path, kind: str) -> Path:
    """Return a path of a kind that is no regular file."""
    path = folder / kind
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link to a pipe":
            os.mkfifo(folder / "target")
            path.symlink_to(folder / "target")
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "folder":
            path.mkdir()
        case "link to a device":
            path.symlink_to("/dev/zero")
        case _:
            return Path("/dev", kind)
    return path


KINDS = ("zero", "null", "full", "pipe", "link to a pipe", "socket", "folder", "link to a device")


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError, match=r"not a file|cannot be read"):
        read_file(irregular(tmp_path, kind), LIMIT)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * LIMIT)
    assert read_file(path, LIMIT) == b"x" * LIMIT
    with path.open("ab") as more:
        more.write(b"x")
    with pytest.raises(UsageError, match=f"{LIMIT + 1} bytes; at most {LIMIT}"):
        read_file(path, LIMIT)


def test_a_file_that_does_not_say_its_size_is_read_up_to_the_limit() -> None:
    """Files of /proc have size 0."""
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(UsageError, match="11 bytes; at most 10"):
        read_file(Path("/proc/self/maps"), 10)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "/" + "y/" * 4000])
def test_a_path_that_no_file_can_have(path: str) -> None:
    with pytest.raises(UsageError):
        read_text(Path(path))


@pytest.mark.parametrize("kind", ["null", "pipe", "link to a pipe", "socket", "link to a device"])
def test_results_neither_replace_nor_extend_what_is_no_file(tmp_path: Path, kind: str) -> None:
    path = irregular(tmp_path, kind)
    for write in (check_regular, check_writable, lambda path: write_atomic(path, "text")):
        with pytest.raises(UsageError, match="not a file"):
            write(path)
    assert path.exists() and not path.is_file()
