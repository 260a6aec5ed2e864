"""A search in a process of its own, to be killed: a scripted model, an evaluator that takes a moment.

Usage: python killed.py ARCHIVE RUN. Prints the id of each candidate once its record is kept, and `done` at the end.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from evolving import aim, answer, kernel, search, start

from warpsmith.archive import Archive
from warpsmith.base import digest
from warpsmith.llm import Prompt, ScriptedModel
from warpsmith.records import Candidate, Reason
from warpsmith.search import SearchConfig
from warpsmith.search.ledger import RunLedger
from warpsmith.search.state import Result
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder


def speak(prompt: Prompt) -> str:
    """An answer that follows from the prompt: sometimes none, sometimes a wrong kernel, sometimes one of before."""
    number = int(prompt.key[:6], 16)
    if number % 7 == 0:
        return "I would use shared memory."
    return answer(kernel(f"x[i] * {number % 89 + 1}.0f"), f"kernel {number % 89}")


def clock(candidate: Candidate) -> float | Reason:
    """A time that follows from the text."""
    time.sleep(0.01)
    number = int(digest(candidate.source, str(sorted(candidate.macros.items())))[:6], 16)
    return Reason.WRONG_VALUE if number % 5 == 0 else 1.0 + number % 97


def main(url: str, name: str) -> None:
    plain = RunLedger.save_result

    def finish(self: RunLedger, result: Result) -> None:
        plain(self, result)
        if result.record is not None:
            sys.stdout.write(f"{result.record.candidate.id}\n")
            sys.stdout.flush()

    RunLedger.save_result = finish  # type: ignore[method-assign]
    config = SearchConfig(generations=8, patience=None, proposals=6, evaluate=4)
    one = aim(read_task(suite_folder("layernorm")), start(), config)
    with Archive.open(url) as archive:
        search(archive, one, clock, [ScriptedModel(speak, "m"), ScriptedModel(speak, "n")], name).run()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
