"""A process that adds records: `adder.py URL RUN FROM TO [BYTES]`; it prints the id of each that was acknowledged.

BYTES is the largest size that a file may get, as a disk that is full would do it.
"""

import resource
import sys

from warpsmith.archive import Archive
from warpsmith.base import WarpsmithError
from warpsmith.records import Record
from warpsmith.records.fake import fake_candidate, fake_timing, timed_record

PADDING = "// a kernel has some kilobytes of text\n" * 100


def record(number: int) -> Record:
    """The record of one number: always the same, with a parent and a time."""
    parents = (fake_candidate(text(number - 1)).id,) if number else ()
    return timed_record(fake_candidate(text(number), parents), fake_timing(10.0 + number))


def text(number: int) -> str:
    """The kernel of one number."""
    return f"{PADDING}// {number}"


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
