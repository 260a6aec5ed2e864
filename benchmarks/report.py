"""How long a report takes and how large it gets: `python benchmarks/report.py [RECORDS]`, 10 000 by default.

The run is made up: four kilobytes of source a kernel, each from one of the kernels before it, one in five wrong.
"""

import random
import sys
import time

from warpsmith.archive import Archive, Run
from warpsmith.records import Direction, ModelCall, Reason, Record
from warpsmith.records.fake import fake_candidate, fake_timing, timed_record
from warpsmith.report import build_report, render_html, report_document

LINES = [f"  out[{place}] = in[{place}] * scale + {place};  // a line of a kernel\n" for place in range(70)]


def main(records: int = 10_000) -> None:
    """Make the run, then print seconds and bytes of its report."""
    with Archive.open("sqlite://") as archive:
        fill(archive, "large", records)
        start = time.perf_counter()
        text = render_html(report_document(build_report(archive, ["large"])))
        seconds = time.perf_counter() - start
    print(f"{records} records: {seconds:.2f} s, {len(text.encode()) / 1e6:.2f} MB")


def fill(archive: Archive, name: str, records: int) -> None:
    """A run of so many records."""
    draw, known = random.Random(7), [""]
    archive.start(Run(name=name, target="softmax", task="softmax", direction=Direction.FORWARD, device="vgpu"))
    with archive.transaction():
        for number in range(records):
            record = made(number, known[draw.randrange(max(0, len(known) - 40), len(known))], draw)
            archive.add(name, record, generation=number // 8, operator="improve", model="m", cost_usd=0.001)
            known.append(record.candidate.id)
        archive.spend(name, ModelCall(model="m", operator="improve", usd=0.001 * records, calls=max(1, records)))


def made(number: int, parent: str, draw: random.Random) -> Record:
    """A kernel with a time that falls slowly, or a wrong one."""
    lines = list(LINES)
    lines[draw.randrange(len(lines))] = f"  out[0] = {number};\n"
    timing = fake_timing(100 / (1 + number / 5000) + draw.random() * 40)
    candidate = fake_candidate("".join(lines), (parent,) if parent else ())
    return timed_record(candidate, timing, fails=Reason.WRONG_VALUE if number % 5 == 3 else None)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
