"""One writer a run, in real processes: whoever comes second is told who was first; who dies lets go."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warpsmith.archive import Archive, Run
from warpsmith.base import ArchiveError, UsageError

HOLD = """
import sys, time
from warpsmith.archive import Archive
with Archive.open(sys.argv[1]) as archive, archive.hold("first", "warpsmith tell"):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(url: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that holds the run."""
    with subprocess.Popen([sys.executable, "-c", HOLD, url], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "held\n"
        yield child
        child.kill()


def test_whoever_comes_second_is_told_who_holds_it_and_reads_meanwhile(url: str) -> None:
    with Archive.open(url) as archive, holder(url) as child:
        said = rf"^Run first is held by warpsmith tell, process {child.pid} on .* UTC\. Wait .*`kill {child.pid}`"
        with pytest.raises(UsageError, match=said), archive.hold("first", "warpsmith ask"):
            pass
        assert archive.is_held("first") and not archive.is_held("other")
        assert archive.run("first").name == "first" and archive.count("first") == 0
        with archive.hold("other", "warpsmith ask"):
            assert archive.is_held("other")


def test_a_holder_that_is_killed_lets_go_at_once(url: str) -> None:
    with Archive.open(url) as archive, holder(url) as child:
        child.kill()
        with archive.hold("first", "warpsmith ask"):
            assert archive.is_held("first")
        assert not archive.is_held("first")


def test_two_of_one_process_are_kept_apart_too(url: str) -> None:
    refused = pytest.raises(UsageError, match=f"process {os.getpid()} on")
    with Archive.open(url) as archive, archive.hold("first", "warpsmith ask"):
        with refused, Archive.open(url) as other, other.hold("first", "warpsmith tell"):
            pass
        assert archive.is_held("first")


def test_looking_keeps_nobody_from_holding(url: str) -> None:
    done = threading.Event()

    def look() -> None:
        with Archive.open(url) as archive:
            while not done.is_set():
                archive.is_held("first")

    looking = [threading.Thread(target=look) for _ in range(2)]
    for one in looking:
        one.start()
    try:
        with Archive.open(url) as archive:
            for _ in range(50):
                with archive.hold("first", "warpsmith ask"):
                    pass
    finally:
        done.set()
        for one in looking:
            one.join()


def test_what_is_raised_while_it_is_held_stays_what_it_is(url: str) -> None:
    with Archive.open(url) as archive:
        with pytest.raises(BlockingIOError), archive.hold("first", "warpsmith ask"):
            raise BlockingIOError
        assert not archive.is_held("first")


def test_an_archive_by_another_name_is_the_same_archive(tmp_path: Path, run: Run) -> None:
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "a.sqlite")
    with Archive.open(f"sqlite:///{tmp_path / 'a.sqlite'}") as archive:
        archive.start(run)
    names = (tmp_path / "link.sqlite", f"{tmp_path}/./a.sqlite", f"file:{tmp_path}/a.sqlite?mode=rw&uri=true")
    with holder(f"sqlite:///{tmp_path / 'a.sqlite'}"):
        for name in names:
            with Archive.open(f"sqlite:///{name}") as archive:
                assert archive.is_held("first"), name


def test_a_lock_that_cannot_be_made_is_said(tmp_path: Path, run: Run) -> None:
    with Archive.open(f"sqlite:///{tmp_path / 'a.sqlite'}") as archive:
        archive.start(run)
        (tmp_path / "a.sqlite.runs").write_text("in the way")
        with pytest.raises(ArchiveError, match="cannot be opened or made"), archive.hold("first", "warpsmith ask"):
            pass
        assert not archive.is_held("first")
