"""Write the published matrix product kernels from their shared parts.

Usage: python scripts/join_kernels.py [--check]

kernels/matrix_product/TASK_DIRECTION.cuh becomes kernels/TASK/DIRECTION.cu. Three kinds of lines are replaced:

//: let NAME VALUE   sets a name for `$NAME` in the lines after it; the value may be empty
//: part NAME        the file parts/NAME.cuh; nothing if the name is empty

A published kernel is one file because a candidate is one text. Its id hashes that text, so a record of a kernel stays
valid exactly as long as the joined text is the same. --check writes nothing and exits with 1 if a file is out of date.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

KERNELS = Path(__file__).parents[1] / "kernels"
SOURCES = KERNELS / "matrix_product"
LET = re.compile(r"//: let (\w+) ?(.*)")
PART = re.compile(r"//: part (.*)")
NAME = re.compile(r"\$(\w+)")


def join(source: Path, values: dict[str, str] | None = None) -> Iterator[str]:
    """Yield the lines of a source with its parts. Raise KeyError for a name that is not set."""
    known = {} if values is None else values
    for line in source.read_text().splitlines():
        if found := LET.fullmatch(line):
            known[found[1]] = found[2]
            continue
        text = NAME.sub(lambda name: known[name[1]], line)
        if (found := PART.fullmatch(text)) is None:
            yield text
        elif found[1]:
            yield from join(SOURCES / "parts" / f"{found[1]}.cuh", known)


def published() -> dict[Path, str]:
    """Return the text of each published kernel by its path."""
    sources = sorted(SOURCES.glob("*.cuh"))
    places = {source: source.stem.rpartition("_") for source in sources}
    return {
        KERNELS / task / f"{direction}.cu": "".join(f"{line}\n" for line in join(source))
        for source, (task, _, direction) in places.items()
    }


def main() -> None:
    """Write the published kernels, or check them."""
    changed = [path for path, text in published().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        if changed:
            sys.exit(f"Out of date: {', '.join(map(str, changed))}. Run python scripts/join_kernels.py.")
        return
    for path in changed:
        path.write_text(published()[path])
        print(path)


if __name__ == "__main__":
    main()
