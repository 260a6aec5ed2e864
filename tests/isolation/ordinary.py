"""Runs Python as an ordinary user, with subordinate ids or without, in a private view of this machine's files."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import warpsmith
from warpsmith.base import Home

USER, UID = "warpsmith-test", 64321
FIRST_SUBORDINATE, SUBORDINATES = 1_000_000_000, 65536
# Where this Python lies in a folder that only root may enter, the folder is replaced by one with nothing else in it.
SCRIPT = """
set -e
mount --bind "$1/passwd" /etc/passwd
[ -e /etc/subuid ] && mount --bind "$1/subids" /etc/subuid
[ -e /etc/subgid ] && mount --bind "$1/subids" /etc/subgid
if [ -n "$2" ]; then
  mount --bind "$3" "$1/python"
  mount -t tmpfs -o mode=755 tmpfs "$2"
  mkdir -p "$3"
  mount --move "$1/python" "$3"
fi
shift 3
exec setpriv --reuid UID --regid UID --clear-groups "$@"
""".replace("UID", str(UID))


def reason_to_skip(with_subordinate_ids: bool) -> str:
    """Return why this machine cannot play an ordinary user, or nothing."""
    if os.geteuid() != 0:
        return "only root can become an ordinary user"
    for tool in ("unshare", "setpriv"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        return "this machine refuses a mount namespace"
    if with_subordinate_ids and not (shutil.which("newuidmap") and Path("/etc/subuid").exists()):
        return "newuidmap is not installed (apt-get install uidmap)"
    return ""


@contextmanager
def home_of_ordinary_user() -> Iterator[Path]:
    """Yield a folder of the user with the native parts and the artifacts that are built already."""
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-ordinary-"))
    try:
        built = [path for name in ("native", "artifacts") if (path := Home.locate().cache / name).exists()]
        for path in built:
            shutil.copytree(path, folder / "cache" / path.name, ignore=shutil.ignore_patterns("*.lock", "*.o"))
        subprocess.run(["chown", "-R", f"{UID}:{UID}", str(folder)], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def prefix_of_ordinary_user(home: Path, with_subordinate_ids: bool) -> Iterator[list[str]]:
    """Yield the words before a command that make it run as the ordinary user, in the same process."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-test-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / "python").mkdir()
        account = f"{USER}:x:{UID}:{UID}::{home}:/bin/sh\n"
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + account)
        (folder / "subids").write_text(f"{USER}:{FIRST_SUBORDINATE}:{SUBORDINATES}\n" if with_subordinate_ids else "")
        prefix = Path(sys.base_prefix).resolve()
        closed = next((str(path) for path in reversed(prefix.parents) if not path.stat().st_mode & 0o001), "")
        yield [str(shutil.which("unshare")), "--mount", "sh", "-c", SCRIPT, "sh", made, closed, str(prefix)]


def run_as_ordinary(
    words: Sequence[str], home: Path, with_subordinate_ids: bool, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments as the ordinary user."""
    source = str(Path(warpsmith.__file__).parents[1])
    inside = {"PYTHONPATH": source, "PATH": os.environ["PATH"], "HOME": str(home), "WARPSMITH_HOME": str(home)}
    with prefix_of_ordinary_user(home, with_subordinate_ids) as prefix:
        command = [*prefix, sys.executable, *words]
        return subprocess.run(command, env=inside, cwd="/", capture_output=True, text=True, timeout=timeout_s)
