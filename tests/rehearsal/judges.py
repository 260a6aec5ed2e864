"""The process that forks judges, rehearsed: python judges.py DATA."""

import sys
from pathlib import Path

import pytest
import torch
from stage import rehearsed

from warpsmith.evaluation.processes.judges import run
from warpsmith.evaluation.processes.warm import load
from warpsmith.evaluation.run import Begun, go_on
from warpsmith.records import Record


def one(begun: Begun) -> Record:
    with pytest.MonkeyPatch.context() as patch, rehearsed(patch, Path(sys.argv[1])):
        return go_on(begun)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(one, load, lambda: None)
