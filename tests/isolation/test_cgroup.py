"""Which cgroup may be divided, on trees of files like the kernel's."""

from pathlib import Path

import pytest

from warpsmith.isolation import cgroup

MOUNT = "30 25 0:26 / {top} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A v2 hierarchy with memory divided at the top and below `a`, where we live in a/b."""
    for folder, control in (("", "cpu memory pids"), ("a", "memory"), ("a/b", "")):
        (tmp_path / "top" / folder).mkdir()
        (tmp_path / "top" / folder / "cgroup.subtree_control").write_text(control + "\n")
        (tmp_path / "top" / folder / "cgroup.procs").touch()
    (tmp_path / "mounts").write_text(MOUNT.format(top=tmp_path / "top"))
    (tmp_path / "membership").write_text("4:memory:/old\n0::/a/b\n")
    return tmp_path


def test_the_nearest_that_divides_memory(tree: Path) -> None:
    assert cgroup.find_divisible_cgroup(tree / "membership", tree / "mounts") == tree / "top" / "a"


def test_none_where_memory_is_not_divided(tree: Path) -> None:
    for control in tree.rglob("cgroup.subtree_control"):
        control.write_text("cpu\n")
    assert cgroup.find_divisible_cgroup(tree / "membership", tree / "mounts") is None


def test_none_without_a_v2_hierarchy(tree: Path) -> None:
    (tree / "mounts").write_text("30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    assert cgroup.find_divisible_cgroup(tree / "membership", tree / "mounts") is None


def test_none_for_a_process_outside_of_v2(tree: Path) -> None:
    (tree / "membership").write_text("4:memory:/old\n")
    assert cgroup.find_divisible_cgroup(tree / "membership", tree / "mounts") is None
