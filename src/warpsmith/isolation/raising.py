"""The command that leads to stronger confinement."""

import getpass
import os
from pathlib import Path

from warpsmith.isolation.subordinate import WITHOUT_PROGRAMS, WITHOUT_RANGE
from warpsmith.records import Confined, ConfinementForm

SETTINGS = Path("/proc/sys")
# Settings that keep user namespaces from ordinary users: file, the value that does, the value that does not.
RESTRICTIONS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "15000"),
)
IN_CONTAINER = "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined …"
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def find_raising_command(confined: Confined, settings: Path = SETTINGS, user: str | None = None) -> str:
    """Return the command that leads to a stronger form; "" if none helps."""
    if confined.form is ConfinementForm.OTHER_USER:
        return ""
    reasons = dict(line.split(": ", 1) for line in confined.missing if ": " in line)
    if "landlock" in reasons or "seccomp" in reasons:
        return ""  # a property of the kernel, which no command changes while it runs
    if confined.form is ConfinementForm.NAMESPACES:
        return _grant_subordinate_ids(reasons.get("uid", ""), user or getpass.getuser())
    if command := _lift_restriction(settings):
        return command
    if any(mark.exists() for mark in CONTAINER_MARKS):
        return IN_CONTAINER
    # Root may lack user namespaces only where the kernel or a container refuses them; sudo would change nothing.
    return "" if os.geteuid() == 0 else "sudo warpsmith …"


def _grant_subordinate_ids(reason: str, user: str) -> str:
    """Return the command that installs the programs, or grants a range."""
    # 100000 to 165535 is the range that useradd grants to the first account (SUB_UID_MIN and SUB_UID_COUNT of
    # login.defs).
    grant = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
    if reason == WITHOUT_PROGRAMS:
        return f"sudo apt-get install uidmap && {grant}"
    return grant if WITHOUT_RANGE in reason else ""


def _lift_restriction(settings: Path) -> str:
    """Return the command that lifts the first restriction of user namespaces; "" without one."""
    for name, restricted, lifted in RESTRICTIONS:
        path = settings / name
        if path.exists() and path.read_text().strip() == restricted:
            return f"sudo sysctl -w {name.replace('/', '.')}={lifted}"
    return ""
