"""Tests on a GPU share it as evaluations do: whoever times something has it alone, so that many can run at once."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from warpsmith.machines.hardware.lease import Need, lease


@pytest.fixture(autouse=True)
def shared_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """A lease for a test that needs a GPU, unless it takes its own."""
    marked = request.node.get_closest_marker
    with lease(Need.SHARED) if marked("gpu") and not marked("leases") else nullcontext():
        yield
