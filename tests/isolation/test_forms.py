"""The attack corpus in both forms of confinement, as an ordinary user with subordinate ids and without."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.isolation import ordinary

from warpsmith.records import Confined, ConfinementForm

TESTS = Path(__file__).parents[1]
EXPLOITS, HONEST = TESTS / "exploits", TESTS / "honest"
# One attack on each target that the two forms protect by different means.
FEW = [EXPLOITS / f"{name}.cu" for name in ("50_ptrace_parent", "51_edit_task", "53_kill_everybody")]
FORMS = {False: ConfinementForm.NAMESPACES, True: ConfinementForm.OTHER_USER}
PROBE = "from warpsmith.isolation import probe_confinement; print(probe_confinement().text())"
LEFT_BEHIND = """
import sys
from pathlib import Path
from warpsmith.isolation import Policy, run, system_paths
folder = Path(sys.argv[1]) / "written"
folder.mkdir()
made = run(["sh", "-c", "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b/c; chmod 0 a/b"], Policy(system_paths(), (folder,)))
assert made.ok, made
assert (folder / "a/b/c").owner() and (folder / "a/b").stat().st_mode & 0o700 == 0o700
import shutil
shutil.rmtree(folder)
print(run(["cat", "/etc/shadow"], Policy(system_paths())).exit_code)
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home of the ordinary user, so that both forms compile each kernel once."""
    with ordinary.home_of_ordinary_user() as folder:
        yield folder


@pytest.fixture(params=[False, True], ids=["namespaces", "subordinate"])
def with_subordinate_ids(request: pytest.FixtureRequest) -> bool:
    """Play each form that this machine can play."""
    chosen = bool(request.param)
    if reason := ordinary.reason_to_skip(chosen):
        pytest.skip(reason)
    return chosen


def run_python(home: Path, with_subordinate_ids: bool, *words: str, timeout_s: float = 300) -> str:
    done = ordinary.run_as_ordinary(words, home, with_subordinate_ids, timeout_s)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def audit(home: Path, with_subordinate_ids: bool, *paths: Path, timeout_s: float = 300) -> Any:
    words = ["-m", "warpsmith", "audit", *map(str, paths), "--device", "vgpu", "--jobs", "1", "--json"]
    return json.loads(run_python(home, with_subordinate_ids, *words, timeout_s=timeout_s))


def test_an_ordinary_user_has_the_form(home: Path, with_subordinate_ids: bool) -> None:
    found = Confined.parse(run_python(home, with_subordinate_ids, "-c", PROBE))
    assert found.form is FORMS[with_subordinate_ids], found


def test_what_a_child_leaves_belongs_to_the_user(home: Path, with_subordinate_ids: bool) -> None:
    assert run_python(home, with_subordinate_ids, "-c", LEFT_BEHIND, str(home)) == "1\n"


def test_doctor_names_the_form_and_the_command(home: Path, with_subordinate_ids: bool) -> None:
    parts = json.loads(run_python(home, with_subordinate_ids, "-m", "warpsmith", "doctor", "--json"))
    part = next(one for one in parts if one["name"] == "confinement")
    assert part["found"].startswith(f"{FORMS[with_subordinate_ids]}: ")
    assert ("sudo usermod --add-subuids" in part["remedy"]) is not with_subordinate_ids


def test_a_few_attacks_meet_either_form(home: Path, with_subordinate_ids: bool) -> None:
    found = audit(home, with_subordinate_ids, *FEW, HONEST / "simply_slow.cu")
    assert [one["expected"] for one in found["outcomes"]] == [True] * 4, found


@pytest.mark.slow
def test_the_whole_corpus_meets_either_form(home: Path, with_subordinate_ids: bool) -> None:
    found = audit(home, with_subordinate_ids, EXPLOITS, HONEST, timeout_s=3600)
    assert not [one for one in found["outcomes"] if one["wrong"] or one["verdict"] == "fault"]
    assert len(found["outcomes"]) > 150
