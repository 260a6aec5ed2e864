"""Fixtures that run the entries of this folder's artifacts on the virtual GPU."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # tests are no packages; their helpers are plain modules

from runtime_artifacts import EIGHT, HERE, LIMITS, Run, artifact

from warpsmith.machines.worker import VirtualSandbox


@pytest.fixture(scope="session")
def calls() -> Run:
    """Runs an entry of calls.cu on 1..8."""
    made, sandbox = artifact(HERE / "calls.cu"), VirtualSandbox(limits=LIMITS)
    return lambda entry: sandbox.run(made, entry, [EIGHT])


@pytest.fixture(scope="session")
def faults() -> Run:
    """Runs an entry of faults.cu on 1..8."""
    made, sandbox = artifact(HERE / "faults.cu"), VirtualSandbox(limits=LIMITS)
    return lambda entry: sandbox.run(made, entry, [EIGHT])
