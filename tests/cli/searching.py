"""The command line with an instant evaluator in the place of the real one, in a process that can be interrupted.

Usage: python searching.py SECONDS ARGUMENTS...; SECONDS is what one evaluation takes.
"""

import sys
import time
from typing import Any

import warpsmith.evaluation
import warpsmith.evaluation.processes.judges
from warpsmith.cli import main
from warpsmith.records import Candidate, Record, Verdict
from warpsmith.search.fake import fake_record

COSTS = {"BLOCK": {"128": 0.9, "512": 0.8}, "VEC": {"4": 0.5, "8": 0.6}, "STRATEGY": {"1": 0.7}, "UNROLL": {"2": 0.95}}
TASK = "swiglu"


def judged(candidate: Candidate, *rest: Any) -> Record:
    """A record of the tunables' costs; the task by its name, as the real one has it."""
    us = 100.0
    for name, value in candidate.macros.items():
        us *= COSTS.get(name, {}).get(value, 1.0)
    record = fake_record(candidate.model_copy(update={"task": TASK}), us)
    assert record.concluded is Verdict.PASS
    return record


if __name__ == "__main__":
    wait_s = float(sys.argv[1])

    def slow(candidate: Candidate, *rest: Any) -> Record:
        time.sleep(wait_s)
        return judged(candidate)

    warpsmith.evaluation.grade = warpsmith.evaluation.processes.judges.grade = slow  # type: ignore[assignment]
    main(sys.argv[2:])
