"""Hashing, files, names, formulas and statistics."""

import math
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warpsmith.base import (
    Home,
    MachineError,
    UsageError,
    bootstrap_ratio,
    check_writable,
    digest,
    digest_files,
    digest_json,
    evaluate_formula,
    find_nearest,
    hold_lock,
    is_locked,
    median,
    quantile,
    read_text,
    spearman,
    write_atomic,
)


def test_digest_tells_lists_of_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")
    assert len(digest("a")) == 32


def test_digest_json_ignores_key_order() -> None:
    assert digest_json({"a": 1, "b": [2]}) == digest_json({"b": [2], "a": 1})


def test_digest_files_follows_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("x")
    two.write_text("y")
    before = digest_files([one, two])
    assert before == digest_files([two, one])
    one.write_text("z")
    assert before != digest_files([one, two])


def test_write_atomic_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    write_atomic(target, "one")
    write_atomic(target, b"two")
    assert target.read_text() == "two"
    assert [p.name for p in target.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("place", ["", "file/below", "/proc/nothing.txt"])
def test_a_place_that_cannot_be_written_is_usage_and_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    for attempt in (check_writable, lambda path: write_atomic(path, "text")):
        with pytest.raises(UsageError, match=r"cannot be written: .*name another path"):
            attempt(tmp_path / place)


def test_our_own_folder_that_cannot_be_written_is_the_machines(home: Path) -> None:
    (home / "data").write_text("")
    with pytest.raises(MachineError, match="WARPSMITH_HOME"):
        write_atomic(Home.locate().data / "x", "text")


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("before")
    check_writable(tmp_path / "there")
    check_writable(tmp_path / "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there", "before")]


def test_lock_excludes_and_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = "import sys, time; from pathlib import Path; from warpsmith.base import hold_lock\n"
    code += "with hold_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert is_locked(path)
    with pytest.raises(BlockingIOError), hold_lock(path, patience_s=0.1):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    with hold_lock(path):
        assert is_locked(path)
    assert holder.wait() == -signal.SIGKILL, "it still held the lock when it was killed"
    assert not is_locked(path) and not is_locked(tmp_path / "absent")
    holder.wait()
    holder.stdout.close()


def test_read_text_says_what_is_wrong(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"ok\xff")
    with pytest.raises(UsageError, match="not UTF-8 \\(byte 2\\)"):
        read_text(bad)
    with pytest.raises(UsageError, match="does not exist"):
        read_text(tmp_path / "none")
    with pytest.raises(UsageError, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(UsageError, match="3 bytes; at most 2"):
        read_text(bad, limit_bytes=2)


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert Home.locate() == Home(home / "data", home / "cache")
    monkeypatch.delenv("WARPSMITH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    assert Home.locate().cache == home / "warpsmith"


def test_nearest() -> None:
    assert find_nearest("layrnorm", ["layernorm", "softmax"]) == ["layernorm"]
    assert find_nearest("LayerNorm", ["layernorm"]) == ["layernorm"]
    assert find_nearest("zzz", ["layernorm"]) == []


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("2*m*n", 24),
        ("m//2 + n%3", 2),
        ("-m", -3),
        ("max(m, n)", 4),
        ("sqrt(n)", 2.0),
        ("m*8 % n == 0", 1),
        ("m > n", 0),
    ],
)
def test_formula(formula: str, value: float) -> None:
    assert evaluate_formula(formula, {"m": 3, "n": 4}) == value


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("m*q", "names q; known are m"),
        ("m**9", "has no place in a formula"),
        ("__import__('os')", "has no place in a formula"),
        ("m.real", "has no place in a formula"),
        ("2 *", "cannot be read"),
        ("m // 0", "divides by zero"),
        ("1+" * 400 + "1", "at most 500"),
    ],
)
def test_formula_refuses(formula: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate_formula(formula, {"m": 3})


def test_quantiles() -> None:
    assert median([3, 1, 2]) == 2
    assert quantile([0, 10], 0.25) == 2.5
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_bootstrap_brackets_a_known_ratio() -> None:
    top = [20 + 0.1 * (i % 7) for i in range(60)]
    bottom = [10 + 0.1 * (i % 5) for i in range(60)]
    low, high = bootstrap_ratio(top, bottom)
    assert low < median(top) / median(bottom) < high
    assert high - low < 0.1


def test_the_bootstrap_is_what_many_resamples_come_to() -> None:
    draw = random.Random(3)
    top, bottom = [draw.gauss(20, 1) for _ in range(9)], [draw.gauss(10, 1) for _ in range(7)]
    ratios = [median(draw.choices(top, k=9)) / median(draw.choices(bottom, k=7)) for _ in range(20_000)]
    low, high = bootstrap_ratio(top, bottom, level=0.9)
    assert low == pytest.approx(quantile(ratios, 0.05), rel=0.01)
    assert high == pytest.approx(quantile(ratios, 0.95), rel=0.01)


def test_spearman() -> None:
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert spearman([1, 2, 3], [3, 2, 1]) == -1
    assert spearman([1, 2, 2, 3], [1, 2, 2, 3]) == 1
    assert math.isnan(spearman([1, 1], [1, 2]))
    assert math.isnan(spearman([1], [1]))
