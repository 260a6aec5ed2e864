"""Paths are shown at their own places, with the links that lead to them."""

import sys
from pathlib import Path

import pytest

from warpsmith.isolation import Policy, run, system_paths
from warpsmith.isolation.paths import resolve_paths


def test_links_on_the_way_are_kept_and_the_place_is_canonical(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "chain").symlink_to(tmp_path / "link")
    shown = resolve_paths([tmp_path / "chain" / "deep"], [])
    assert shown.binds == ((str(tmp_path / "real" / "deep"), False),)
    assert dict(shown.links) == {str(tmp_path / "chain"): str(tmp_path / "link"), str(tmp_path / "link"): "real"}


def test_what_lies_in_a_shown_folder_is_not_shown_twice(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert resolve_paths([tmp_path / "a", tmp_path / "a" / "b"], []).binds == ((str(tmp_path / "a"), False),)


def test_a_writable_folder_in_a_readable_one_comes_after_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    shown = resolve_paths([tmp_path / "a", tmp_path / "a" / "b" / "c"], [tmp_path / "a" / "b"])
    assert shown.binds == (
        (str(tmp_path / "a"), False),
        (str(tmp_path / "a" / "b"), True),
        (str(tmp_path / "a" / "b" / "c"), False),
    )


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")
    with pytest.raises(OSError, match="more than 40 links"):
        resolve_paths([tmp_path / "x"], [])


def test_parents_in_a_link_target_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "up").symlink_to("../b")
    assert resolve_paths([tmp_path / "a" / "up"], []).binds == ((str(tmp_path / "b"), False),)


@pytest.mark.usefixtures("own_places")
def test_system_paths_are_enough_for_this_python_and_a_compiler() -> None:
    policy = Policy(read=system_paths())
    imported = run([sys.executable, "-c", "import warpsmith.records, ssl; print(warpsmith.__name__)"], policy)
    assert imported.stdout == b"warpsmith\n", imported.stderr
    script = "echo 'int main(){return 7;}' > a.cc && g++ a.cc -o a && ./a"
    assert run(["sh", "-c", script], policy).exit_code == 7
