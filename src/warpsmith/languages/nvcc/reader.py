"""A program that reads a compilation's files in a confined process.

Standard input is the tools' output; standard output is one JSON document with the fields of `reading.Reading`.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from warpsmith.languages.nvcc.artifact import Elf, entry_texts, ptx_externs
from warpsmith.languages.nvcc.bounds import ARTIFACT_BYTES, FILES, LIST_BYTES, NAME_BYTES, Exceeded, check_count
from warpsmith.languages.nvcc.diagnose import read_diagnostics
from warpsmith.languages.nvcc.ptxas import resource_rows


def read_compilation(said: str, dependencies: Path, artifact: Path | None) -> dict[str, object]:
    """Parse a compilation's output and files."""
    found: dict[str, object] = {}
    try:
        found["diagnostics"] = [asdict(one) for one in read_diagnostics(said)]
        # The list is read also without an artifact: a forbidden file is a reason of its own.
        found["files"] = _files(dependencies)
        if artifact is not None:
            found |= _artifact(artifact) | {"kernels": resource_rows(said)}
    except Exceeded as error:
        found["exceeded"] = str(error)
    # Parsing of hostile bytes may meet any limit; the answer is a value, so that the caller can tell it from our own
    # bugs.
    except MemoryError:
        found["exceeded"] = "it takes more memory than there is for it"
    except Exception as error:  # noqa: BLE001 - whatever an artifact brings about is said of it
        found["malformed"] = str(error) or type(error).__name__
    return found


def _artifact(path: Path) -> dict[str, object]:
    """Return symbols, libraries and entry points of an artifact."""
    check_count(path.stat().st_size, ARTIFACT_BYTES, "bytes")
    raw = path.read_bytes()
    elf = Elf(raw)
    externs, entries = ptx_externs(raw), entry_texts(raw)
    return {"undefined": elf.undefined, "needed": elf.needed, "externs": externs, "entries": entries}


def _files(path: Path) -> list[str] | None:
    """Return the files that the preprocessor opened, each once."""
    # A link could lead out of the folder; the list must be a file that the compiler itself wrote.
    if path.is_symlink() or not path.is_file():
        return None
    check_count(path.stat().st_size, LIST_BYTES, "bytes in the list of the files that it reads")
    # The list is a rule of make: a target with a colon, and paths on continued lines.
    words = path.read_text(errors="replace").replace("\\\n", " ").split()
    found = list(dict.fromkeys(word for word in words if word.startswith(("/", "..")) and not word.endswith(":")))
    check_count(len(found), FILES, "files to read")
    check_count(max(map(len, found), default=0), NAME_BYTES, "bytes in the name of a file to read")
    return found


def main() -> None:
    """Read the compilation in the current folder."""
    dependencies, *artifact = map(Path, sys.argv[1:])
    said = sys.stdin.buffer.read().decode(errors="replace")
    sys.stdout.write(json.dumps(read_compilation(said, dependencies, artifact[0] if artifact else None)))
