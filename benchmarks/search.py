"""What the search itself costs: proposals a second and memory with an instant model and an instant evaluator.

    python benchmarks/search.py [--proposals 10000]

Every proposal is another kernel of about a hundred lines; prompts are built whole, answers read, novelty and lessons
kept, everything archived in SQLite on disk.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

from warpsmith.app import first_candidate
from warpsmith.archive import Archive
from warpsmith.base import digest
from warpsmith.llm import Ensemble, ModelAnswer, Prompt
from warpsmith.records import Candidate, Direction, Reason, Run
from warpsmith.search import PromptContext, Search, SearchConfig, SearchTask, SearchTools, SearchView
from warpsmith.search.fake import fake_evaluator
from warpsmith.search.proposals.evidence import describe_gpu
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder

TASK = "layernorm"


class Instant:
    """A model that answers at once: the seed with other functions beside it each time. It remembers nothing."""

    name = "instant"

    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        self.count += 1
        lines = [f"__device__ float f{self.count}_{n}(float x) {{ return x * {n}.{self.count}f; }}" for n in range(30)]
        code = "\n".join([*lines, self.source])
        text = f"Name: kernel {self.count}\nThought: other.\n\n```cuda\n{code}\n```\n"
        return ModelAnswer(text=text, model=self.name, usd=0.001)


def clock(candidate: Candidate) -> float | Reason:
    """An instant evaluation; one of eight is wrong."""
    number = int(digest(candidate.source)[:6], 16)
    return Reason.WRONG_VALUE if number % 8 == 0 else 5.0 + number % 1000


def resident_mib() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proposals", type=int, default=10_000)
    proposals = parser.parse_args().proposals
    start = first_candidate(TASK, Direction.FORWARD)
    assert start is not None
    writer, marks = Instant(start.source), [(time.perf_counter(), 0, resident_mib())]

    def watch(view: SearchView) -> None:
        if view.phase == "done" and writer.count - marks[-1][1] >= proposals / 10:
            marks.append((time.perf_counter(), writer.count, resident_mib()))
            print(f"{writer.count:6d} proposals: {resident_mib():6.1f} MiB", flush=True)

    subject = PromptContext(read_task(suite_folder(TASK)), Direction.FORWARD, describe_gpu("vgpu", "H200"))
    config = SearchConfig(generations=proposals // 8 + 1, patience=None, proposals=8, evaluate=8, tuner_share=0.0)
    task = SearchTask(TASK, subject, start, seed=1)
    tools = SearchTools(fake_evaluator(clock), Ensemble([writer]), watch=watch)
    with tempfile.TemporaryDirectory() as folder, Archive.open(f"sqlite:///{folder}/archive.sqlite") as archive:
        run = Run(name="bench", target=TASK, task=TASK, direction=Direction.FORWARD, device="fake", seed=1)
        archive.start(run)
        began, busy = time.perf_counter(), time.process_time()
        ending = Search(archive, run, task, config, tools).run()
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
    print(
        f"{writer.count} proposals, {ending.evaluations} evaluations in {seconds:.1f} s, {busy:.1f} s of them computing"
    )
    print(f"{writer.count / seconds:.0f} proposals a second; {writer.count / busy:.0f} a second of computing")
    if len(marks) > 2:
        print(f"memory {marks[1][2]:.1f} MiB at {marks[1][1]} proposals, {marks[-1][2]:.1f} MiB at {marks[-1][1]}")


if __name__ == "__main__":
    main()
