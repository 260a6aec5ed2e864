"""Content hashes, and the canonical JSON form."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from warpsmith.base.files import read_file

FILE_BYTES = 1 << 26
LENGTH = 32  # hex digits: 128 bits, past any accidental collision


def digest(*parts: str | bytes) -> str:
    """Return the hash of all parts in order."""
    # The length before each part tells digest("ab", "c") from digest("a", "bc"). Ids, keys and versions in archives are
    # such hashes: a change here would orphan all of them.
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()[:LENGTH]


def digest_json(value: Any) -> str:
    """Return the hash of a JSON value, independent of key order."""
    return digest(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def digest_files(paths: Iterable[Path]) -> str:
    """Return the hash of files, independent of order."""
    # The folder is left out, so that a task keeps its version wherever it lies.
    ordered = sorted(paths, key=lambda path: path.name)
    return digest(*(part for path in ordered for part in (path.name.encode(), read_file(path, FILE_BYTES))))
