"""Content hashes: one algorithm, one length, one canonical JSON."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from warpsmith.base.files import read_file

FILE_BYTES = 1 << 26
LENGTH = 32  # hex digits: 128 bits, past any accidental collision


def digest(*parts: str | bytes) -> str:
    """Hash of the parts, each prefixed by its length so that no two lists of parts collide."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()[:LENGTH]


def digest_json(value: Any) -> str:
    """Hash of a JSON value, whatever the order of its keys."""
    return digest(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def digest_files(paths: Iterable[Path]) -> str:
    """Hash of the names and contents of files, whatever the order they come in."""
    ordered = sorted(paths, key=lambda path: path.name)
    return digest(*(part for path in ordered for part in (path.name.encode(), read_file(path, FILE_BYTES))))
