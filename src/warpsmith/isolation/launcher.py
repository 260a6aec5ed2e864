"""The native launcher and the spec of one confined child."""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from warpsmith.base import build_native
from warpsmith.isolation.cgroup import find_divisible_cgroup
from warpsmith.isolation.paths import INHERITED, inherited_paths, resolve_paths
from warpsmith.isolation.policy import Policy
from warpsmith.isolation.subordinate import SubordinateIds, find_subordinate_ids

NATIVE = Path(__file__).parent / "native"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "confined",
    "LOGNAME": "confined",
    "LANG": "C.UTF-8",
}


@lru_cache(maxsize=4)
def _build(home: str | None) -> Path:
    """Build the launcher for one cache folder."""
    return build_native("launcher", sorted(NATIVE.glob("*.cc")))


def launcher() -> Path:
    """Return the launcher's path; build it on first use."""
    return _build(os.environ.get("WARPSMITH_HOME"))


def encode_spec(argv: Sequence[str], policy: Policy, files: Sequence[int]) -> bytes:
    """Encode a spec for native/spec.cc."""
    words = [word for pair in _pairs(argv, policy, files) for word in pair]
    raw = [os.fsencode(word) for word in words]
    for word in raw:
        # NUL ends each word of the spec, so a NUL inside a word would start a forged key.
        if b"\0" in word:
            raise ValueError(f"{word!r} holds a NUL byte, which no argument, variable or path may")
    return b"".join(word + b"\0" for word in raw)


def _pairs(argv: Sequence[str], policy: Policy, files: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of a spec."""
    shown = resolve_paths(policy.read, policy.write)
    limits = policy.limits
    yield from (("argument", word) for word in argv)
    # A child inherits no variable of the user, except the search paths of code: others may hold keys.
    inherited = {name: os.pathsep.join(inherited_paths(name)) for name in INHERITED if name in os.environ}
    variables = {**ENVIRONMENT, **inherited, **policy.env}
    yield from (("environment", f"{name}={value}") for name, value in variables.items())
    yield from (("require", part) for part in policy.require)
    yield from (("write" if writable else "read", path) for path, writable in shown.binds)
    for path, target in shown.links:
        yield "link", path
        yield "target", target
    yield from (("file", str(fd)) for fd in files)
    yield "folder", str(policy.cwd or (policy.write[0].absolute() if policy.write else "/tmp"))
    yield "seccomp", policy.seccomp
    yield "devices", str(int(policy.devices))
    yield "cgroup", str(find_divisible_cgroup() or "")
    yield from _subordinate_pairs(find_subordinate_ids())
    # The launcher ends the child when this process dies (native/launcher.cc), after SIGKILL too.
    yield "judge", str(os.getpid())
    yield "wall_s", repr(float(limits.wall_s))
    yield "address_space", str(int(limits.address_space))
    for name in ("cpu_s", "memory_bytes", "processes", "open_files", "file_bytes", "output_bytes"):
        yield name, str(getattr(limits, name))


def _subordinate_pairs(found: SubordinateIds | str) -> Iterator[tuple[str, str]]:
    """Yield the user's subordinate ids, or the reason without any."""
    if isinstance(found, str):
        yield "subordinate_refusal", found
        return
    yield "subordinate_uid", str(found.uid)
    yield "subordinate_gid", str(found.gid)
    yield "subordinate_count", str(found.count)
    yield "newuidmap", str(found.newuidmap)
    yield "newgidmap", str(found.newgidmap)
