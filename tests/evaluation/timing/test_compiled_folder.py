"""What torch compiled is for every baseline process, though each may be another user."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.base import Home
from warpsmith.evaluation.timing.baseline_process import baseline_policy, compiled_folder, open_to_everybody
from warpsmith.isolation import ChildOutcome, run

WRITE = """
import os, pathlib, sys
folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "xy"
folder.mkdir(exist_ok=True)
(folder / sys.argv[1]).write_text("x")
(folder / "lock").open("a").close()
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of this test, but for the confinement: building it anew takes half a minute."""
    found = Home(tmp_path / "data", tmp_path / "cache")
    monkeypatch.setattr("warpsmith.evaluation.timing.baseline_process.Home", SimpleNamespace(locate=lambda: found))
    return tmp_path


def written(name: str) -> ChildOutcome:
    return run([sys.executable, "-c", WRITE, name], replace(baseline_policy("softmax"), devices=False))


def test_a_second_process_goes_on_where_the_first_one_wrote() -> None:
    for name in ("first", "second"):
        outcome = written(name)
        assert outcome.exit_code == 0, outcome.stderr.decode()
    assert sorted(path.name for path in (compiled_folder() / "xy").iterdir()) == ["first", "lock", "second"]


def test_processes_at_the_same_time_share_it() -> None:
    open_handed = "import os; os.umask(0)\n" + WRITE + "import time; time.sleep(float(sys.argv[2]))"
    policy = replace(baseline_policy("softmax"), devices=False)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, [sys.executable, "-c", open_handed, "first", "3"], policy)
        time.sleep(1.5)
        second = run([sys.executable, "-c", open_handed, "second", "0"], policy)
        assert (first.result().exit_code, second.exit_code) == (0, 0), second.stderr.decode()


def test_the_folder_stays_the_same_under_a_name_that_nobody_guesses(home: Path) -> None:
    folder = compiled_folder()
    assert compiled_folder() == folder
    assert folder.parent == home / "cache" / "inductor"
    assert len(folder.name) > 32


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's children are somebody else")
def test_root_opens_the_folder_and_hides_its_name() -> None:
    folder = compiled_folder()
    assert folder.stat().st_mode & 0o777 == 0o777
    assert folder.parent.stat().st_mode & 0o777 == 0o711  # passed through, never listed


def test_links_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("ours")
    outside.chmod(0o600)
    inside = tmp_path / "inside"
    inside.mkdir(mode=0o755)
    (inside / "link").symlink_to(outside)
    (inside / "tool").write_text("x")
    (inside / "tool").chmod(0o744)
    open_to_everybody(inside)
    assert outside.stat().st_mode & 0o777 == 0o600
    assert (inside / "tool").stat().st_mode & 0o777 == 0o766
