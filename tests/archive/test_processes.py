"""Many processes at once, and a SIGKILL at any moment: what was acknowledged is there, whole, once."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.archive import Archive
from warpsmith.base import digest
from warpsmith.records import score

ADDER = Path(__file__).with_name("adder.py")
KILLS = 20
AT_ONCE = 4


def adder(url: str, first: int, end: int, *more: str, out: int = subprocess.PIPE) -> subprocess.Popen[str]:
    words = [sys.executable, str(ADDER), url, "first", str(first), str(end), *more]
    return subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE, text=True)


def acknowledged(text: str) -> list[str]:
    """The whole lines of what a process wrote."""
    return text[: text.rfind("\n") + 1].split()


def assert_whole(url: str, expected: set[str]) -> None:
    """Every entry is what it says, has its score, and is there once; all that are expected are."""
    with Archive.open(url) as archive:
        seen = set()
        for entry in archive.records("first"):
            assert digest(entry.body) == entry.id and entry.id not in seen
            assert entry.score == score(entry.record)
            seen.add(entry.id)
    assert expected <= seen
    if url.startswith("sqlite:///"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        raw.close()


def test_four_processes_add_two_hundred_each(url: str) -> None:
    workers = [adder(url, first, first + 200) for first in (0, 100, 300, 400)]  # half of them meet
    answers = [worker.communicate(timeout=120) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, answers
    names = [acknowledged(out) for out, _ in answers]
    assert [len(one) for one in names] == [200] * 4
    with Archive.open(url) as archive:
        assert archive.count("first") == 600
    assert_whole(url, {name for one in names for name in one})


def test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged(url: str) -> None:
    draw = random.Random(7)
    safe: set[str] = set()
    for turn in range(KILLS // AT_ONCE):
        workers = [adder(url, 5000 * place + 1000 * turn, 10**6) for place in range(AT_ONCE)]
        said = [worker.stdout for worker in workers if worker.stdout]
        begun = [lines.readline() for lines in said]
        for worker in workers:
            time.sleep(draw.uniform(0, 0.1))
            worker.send_signal(signal.SIGKILL)
        rest = [lines.read() for lines in said]  # not by communicate: it passes over what readline has fetched
        safe.update(name for line, more in zip(begun, rest, strict=True) for name in acknowledged(line + more))
        assert [worker.wait(timeout=60) for worker in workers] == [-signal.SIGKILL] * AT_ONCE
        for worker in workers:
            worker.communicate()
    assert len(safe) > KILLS
    assert_whole(url, safe)


def test_a_killed_process_goes_on_without_doing_anything_twice(url: str) -> None:
    worker = adder(url, 0, 10**6)
    assert worker.stdout is not None
    first = [worker.stdout.readline().strip() for _ in range(30)]
    worker.kill()
    worker.communicate(timeout=60)
    again = adder(url, 0, 60)
    names = acknowledged(again.communicate(timeout=60)[0])
    assert names[:30] == first and len(names) == 60
    with Archive.open(url) as archive:
        entries = [entry.id for entry in archive.records("first")]
        assert len(entries) == len(set(entries)) and entries[:60] == names
        assert archive.best("first") is not None


def test_processes_that_open_a_new_archive_at_once_make_it_once(new_url: Callable[[], str]) -> None:
    code = "import sys; from warpsmith.archive import Archive; Archive.open(sys.argv[1]).close()"
    url = new_url()
    workers = [subprocess.Popen([sys.executable, "-c", code, url], stderr=subprocess.PIPE) for _ in range(6)]
    assert [(worker.communicate(timeout=60)[1], worker.returncode) for worker in workers] == [(b"", 0)] * 6


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # the disk of PostgreSQL is its server's
def test_a_full_disk_is_said_and_what_was_there_is_kept(url: str) -> None:
    worker = adder(url, 0, 10**6, str(2 << 20))
    out, err = worker.communicate(timeout=60)
    assert worker.returncode == 3 and "ArchiveError" in err and "past a limit of file size" in err
    assert "what was there before is kept" in err
    names = acknowledged(out)
    assert len(names) > 20
    assert_whole(url, set(names))
    again = adder(url, 0, len(names) + 5)
    assert again.communicate(timeout=60)[1] == "" and again.returncode == 0
    with Archive.open(url) as archive:
        assert archive.count("first") == len(names) + 5
