"""The process that forks judges, rehearsed: python judges.py DATA."""

import sys
from pathlib import Path

import pytest
import torch
from stage import rehearsed

from warpsmith.evaluation.processes.judges import run
from warpsmith.evaluation.processes.warm import load
from warpsmith.evaluation.run import PreparedEvaluation, resume
from warpsmith.records import Record


def one(prepared: PreparedEvaluation) -> Record:
    with pytest.MonkeyPatch.context() as patch, rehearsed(patch, Path(sys.argv[1])):
        return resume(prepared)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(one, load, lambda: None)
