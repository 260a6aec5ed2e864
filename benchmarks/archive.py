"""How fast the archive is: adds a second, questions on 10 000 records, memory while all are read."""

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsmith.archive import Archive, Run
from warpsmith.records import Direction, Group, Record
from warpsmith.records.fake import fake_candidate, fake_case, fake_timing, timed_record

COUNT = 10_000
TEXT = "// a line of a kernel, about as long as they are\n" * 200


def record(number: int, parent: str) -> Record:
    """A record with five times and ten kilobytes of source."""
    us, parents = 10.0 + number % 997, (parent,) if parent else ()
    timings = [fake_timing(us, case=fake_case(f"case-{place}", Group.SMOKE, 8 + place)) for place in range(5)]
    return timed_record(fake_candidate(f"{TEXT}{number}", parents), *timings)


def chain(count: int) -> Iterator[Record]:
    """Records of which each is the parent of the next ten."""
    parent = ""
    for number in range(count):
        made = record(number, parent)
        parent = made.candidate.id if number % 10 == 0 else parent
        yield made


@contextmanager
def timed(what: str, count: int = 0) -> Iterator[None]:
    """Print how long something took, or how many a second."""
    begin = time.perf_counter()
    yield
    seconds = time.perf_counter() - begin
    print(f"{what:<44}{count / seconds:8.0f} a second" if count else f"{what:<44}{seconds * 1e3:8.1f} ms")


def fill(archive: Archive) -> None:
    """A tenth one by one, the rest a hundred at a time; making the records is not timed."""
    made = list(chain(COUNT))
    single = COUNT // 10
    with timed("add, one by one", single):
        for one in made[:single]:
            archive.add("run", one)
    with timed("add, a hundred together", COUNT - single):
        for start in range(single, COUNT, 100):
            with archive.transaction():
                for one in made[start : start + 100]:
                    archive.add("run", one)
    with timed("add again what is there", single):
        for one in made[:single]:
            archive.add("run", one)


def ask(archive: Archive) -> None:
    """The questions of a search."""
    last = next(iter(archive.elites("run", limit=1)))
    questions: tuple[tuple[str, Callable[[], object]], ...] = (
        ("best", lambda: archive.best("run")),
        ("elites, 20", lambda: archive.elites("run", limit=20)),
        ("outcomes", lambda: archive.outcomes("run")),
        ("lineage of the best", lambda: archive.lineage(last.candidate, "run")),
    )
    for what, question in questions:
        with timed(what):
            question()


def read(archive: Archive) -> None:
    """All records, parsed, and the most memory that took."""
    tracemalloc.start()
    total = sum(len(entry.record.candidate.source) for entry in archive.records("run"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    with timed("read and parse all", COUNT):
        for entry in archive.records("run"):
            _ = entry.record
    print(f"{'memory for ' + format(total / 1e6, '.0f') + ' MB of sources':<44}{peak / 1e6:8.1f} MB")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, Archive.open(f"sqlite:///{Path(folder) / 'a.sqlite'}") as opened:
        opened.start(Run(name="run", target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu"))
        fill(opened)
        ask(opened)
        read(opened)
