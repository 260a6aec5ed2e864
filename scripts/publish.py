"""Take records into docs/results, one for every published kernel, and write the tables anew.

Usage: python scripts/publish.py FOLDER RECORDS.jsonl...
       python scripts/publish.py FOLDER --stale > REQUESTS.jsonl

FOLDER is of a GPU: docs/results/h200. A record counts that passed and is of a kernel's text as it is now; where there
are several the last one does, of FOLDER first and then of the files as they are named. A kernel without one keeps the
record that it had; --stale prints those whose text has no claim there of the task as it is now, as requests for
`warpsmith eval-batch --claim`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from warpsmith.app import kernel_candidate, kernels_below, read_records, records_below
from warpsmith.cli import main
from warpsmith.records import Direction, Record, Verdict
from warpsmith.tasks.suite import versions

KERNELS = Path(__file__).parents[1] / "kernels"


def taken(kernel: Path, records: list[Record]) -> Record | None:
    """The record of a kernel: the last one of its text, else the last one of an older text."""
    place = kernel.parent.name, Direction(kernel.stem)
    own = [one for one in records if (one.candidate.task, one.candidate.direction) == place]
    exact = [one for one in own if one.candidate.source == kernel.read_text()]
    return next(reversed(exact or own), None)


def publish(folder: Path, files: list[Path]) -> None:
    """Write the records of all kernels in the order of their places, and what they say."""
    records = [*records_below(folder), *(one for path in files for one in read_records(path))]
    passed = [one for one in records if one.concluded is Verdict.PASS and one.timing]
    found = [one for kernel in kernels_below(KERNELS) if (one := taken(kernel, passed))]
    (folder / "records.jsonl").write_text("".join(f"{one.text()}\n" for one in found))
    main(["report", "--suite", str(folder), "--md", str(folder / "README.md")])


def stale(folder: Path) -> Iterator[str]:
    """A request for every kernel whose text has no claim in the folder, or one of an earlier version of its task."""
    now = versions()
    claims = [one for one in records_below(folder) if one.timing and one.timing.tier == "claim"]
    claimed = {one.candidate.source for one in claims if one.task_version == now.get(one.candidate.task)}
    for kernel in kernels_below(KERNELS):
        if kernel.read_text() not in claimed:
            yield kernel_candidate(kernel, "", {})[1].text()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[2] == "--stale":
        for request in stale(Path(sys.argv[1])):
            print(request)
        sys.exit()
    publish(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
