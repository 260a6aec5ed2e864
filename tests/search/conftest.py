"""Lets the tests of this folder import what lies beside them; an archive in memory, a task as data."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.archive import Archive
from warpsmith.records import Task
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def archive() -> Iterator[Archive]:
    with Archive.open("sqlite://") as opened:
        yield opened


@pytest.fixture(scope="session")
def task() -> Task:
    return read_task(suite_folder("layernorm"))
