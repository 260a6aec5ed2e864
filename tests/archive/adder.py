"""A process that adds records: `adder.py URL RUN FROM TO [BYTES]`; it prints the id of each that was acknowledged.

BYTES is the largest size that a file may get, as a disk that is full would do it.
"""

import resource
import sys

from warpsmith.archive import Archive
from warpsmith.base import WarpsmithError
from warpsmith.records import (
    Candidate,
    Case,
    CaseTiming,
    Direction,
    Dtype,
    Environment,
    Group,
    ModelledTime,
    Record,
    StageResult,
    TimingFacts,
    Verdict,
)

PADDING = "// a kernel has some kilobytes of text\n" * 100


def record(number: int) -> Record:
    """The record of one number: always the same, with a parent and a time."""
    parents = (candidate(number - 1).id,) if number else ()
    case = Case(name="case", group=Group.SMOKE, axes={"n": 8}, dtype=Dtype.FLOAT32)
    times = (CaseTiming(case=case, time=ModelledTime(us=10.0 + number, gpu="H200")),)
    return Record(
        candidate=candidate(number).model_copy(update={"parents": parents}),
        task_version="1",
        environment=Environment(device="virtual H200", hardware="vgpu:H200"),
        results=(
            StageResult(stage="check", verdict=Verdict.PASS),
            StageResult(stage="timing", verdict=Verdict.PASS, facts=TimingFacts(tier="modelled", cases=times)),
        ),
    )


def candidate(number: int) -> Candidate:
    """The kernel of one number."""
    return Candidate(task="softmax", direction=Direction.FORWARD, source=f"{PADDING}// {number}")


def main(url: str, run: str, first: int, end: int, limit_bytes: int = 0) -> int:
    """Add them one by one."""
    with Archive.open(url) as archive:
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        try:
            for number in range(first, end):
                sys.stdout.write(archive.add(run, record(number)) + "\n")
                sys.stdout.flush()
        except WarpsmithError as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3], *map(int, sys.argv[3:])))
