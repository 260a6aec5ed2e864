"""The order of operations, held to its definition by a native test."""

import subprocess
from pathlib import Path

from warpsmith.base.native import build_native
from warpsmith.machines.virtual.native import FOLDER


def test_vector_clocks_say_what_reachability_says() -> None:
    own = FOLDER / "executor"
    sources = [Path(__file__).with_name("order_test.cpp"), own / "order.cpp"]
    done = subprocess.run([build_native("order-test", sources, includes=[own])], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
