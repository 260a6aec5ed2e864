"""Which one command leads to a stronger form of confinement."""

from pathlib import Path

import pytest

from warpsmith.isolation import find_raising_command, raising
from warpsmith.isolation.subordinate import WITHOUT_PROGRAMS
from warpsmith.records import Confined, ConfinementForm
from warpsmith.records.environment import FORMS

GRANT = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 alice"


def confined(form: ConfinementForm | None, *missing: str) -> Confined:
    return Confined(achieved=tuple(sorted(FORMS[form])) if form else (), missing=missing)


def test_above_the_strongest_form_is_nothing() -> None:
    assert find_raising_command(confined(ConfinementForm.OTHER_USER)) == ""


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        (WITHOUT_PROGRAMS, f"sudo apt-get install uidmap && {GRANT}"),
        ("/etc/subuid grants no subordinate ids to alice", GRANT),
        ("/home/alice/venv is readable by its owner only (chmod o+rX would open it)", ""),
    ],
)
def test_an_ordinary_user_gets_subordinate_ids(reason: str, command: str) -> None:
    found = confined(ConfinementForm.NAMESPACES, f"uid: {reason}")
    assert find_raising_command(found, user="alice") == command


@pytest.mark.parametrize(
    ("setting", "value", "command"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
    ],
)
def test_a_setting_that_keeps_namespaces_away_is_changed(
    tmp_path: Path, setting: str, value: str, command: str
) -> None:
    path = tmp_path / setting
    path.parent.mkdir()
    path.write_text(value + "\n")
    found = confined(None, "user_ns: unshare: Operation not permitted")
    assert find_raising_command(found, tmp_path) == f"sudo sysctl -w {command}"


def test_in_a_container_its_runtime_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raising, "CONTAINER_MARKS", (tmp_path,))
    found = confined(None, "pid_ns: its own /proc was refused: mount: Operation not permitted")
    assert find_raising_command(found, tmp_path).startswith("docker run --security-opt")


def test_no_command_adds_a_part_to_a_running_kernel(tmp_path: Path) -> None:
    assert find_raising_command(confined(None, "landlock: landlock_create_ruleset: no"), tmp_path) == ""
