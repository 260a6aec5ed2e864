"""Which subordinate ids an ordinary user has, and why a user has none."""

import os
import pwd
from pathlib import Path

import pytest

from warpsmith.isolation.subordinate import WITHOUT_PROGRAMS, SubordinateIds, find_subordinate_ids

USER = pwd.getpwuid(1).pw_name  # an account that every machine has and nobody logs in with


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH with both programs, for a process that takes itself for an ordinary user."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("newuidmap", "newgidmap"):
        (folder / name).touch(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    return str(folder)


def grant(etc: Path, uids: str, gids: str) -> Path:
    (etc / "subuid").write_text(uids)
    (etc / "subgid").write_text(gids)
    return etc


def test_the_first_range_of_the_user_counts(tmp_path: Path, programs: str) -> None:
    uids = f"other:5:10\n{USER}:100000:65536\n{USER}:900000:5\n"
    found = find_subordinate_ids(grant(tmp_path, uids, f"{USER}:200000:1000\n"), programs)
    folder = Path(programs)
    assert found == SubordinateIds(100000, 200000, 1000, folder / "newuidmap", folder / "newgidmap")


def test_a_user_stands_there_by_number_too(tmp_path: Path, programs: str) -> None:
    assert isinstance(find_subordinate_ids(grant(tmp_path, "1:7:3\n", "1:7:3\n"), programs), SubordinateIds)


@pytest.mark.parametrize("line", ["", f"{USER}:x:3\n", f"{USER}:3\n", f"{USER}:7:0\n", "other:7:3\n", f"{USER}:-5:3\n"])
def test_a_file_without_a_range_is_named(tmp_path: Path, programs: str, line: str) -> None:
    found = find_subordinate_ids(grant(tmp_path, f"{USER}:7:3\n", line), programs)
    assert found == f"{tmp_path}/subgid grants no subordinate ids to {USER}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path, programs: str) -> None:
    assert find_subordinate_ids(tmp_path, programs) == f"{tmp_path}/subuid grants no subordinate ids to {USER}"


def test_programs_that_are_not_there_are_named(tmp_path: Path, programs: str) -> None:
    assert find_subordinate_ids(tmp_path, str(tmp_path)) == WITHOUT_PROGRAMS


def test_a_user_without_a_name_has_none(tmp_path: Path, programs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999)
    assert find_subordinate_ids(tmp_path / "nameless", programs) == (
        f"uid 3999999999 has no name in {tmp_path}/nameless/passwd"
    )
