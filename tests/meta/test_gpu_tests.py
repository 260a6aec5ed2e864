"""What the tests on a GPU have in common, seen without one: all of them wait for the same leases."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROBE = """
import os
from pathlib import Path

def pytest_runtest_setup(item):
    print("LEASES", (Path(os.environ["WARPSMITH_HOME"]) / "data" / "leases").resolve())

def pytest_runtest_call(item):
    pytest_runtest_setup(item)
"""


def test_whoever_runs_beside_others_waits_with_them_for_the_gpu(tmp_path: Path) -> None:
    """A room with a home of its own, and another room after it in the same process."""
    (tmp_path / "leases_probe.py").write_text(PROBE)
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "WARPSMITH_HOME": str(tmp_path / "home")}
    tests = ["tests/languages/nvcc/test_source_text.py", "tests/machines/hardware/test_device.py"]
    words = ["-m", "pytest", "-q", "-s", "-p", "leases_probe", "-p", "no:cacheprovider", *tests]
    said = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout[-2000:] + said.stderr[-2000:]
    places = [line.rpartition("LEASES ")[2] for line in said.stdout.splitlines() if "LEASES" in line]
    assert len(places) > 4 and set(places) == {str(tmp_path / "home" / "data" / "leases")}
