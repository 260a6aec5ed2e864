"""The walkthrough runs from top to bottom, and says what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_walkthrough_runs_top_to_bottom(tmp_path: Path) -> None:
    environment = {**os.environ, "WARPSMITH_ARCHIVE": f"sqlite:///{tmp_path / 'archive.sqlite'}"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    script = [sys.executable, "-W", "error", str(ROOT / "docs" / "walkthrough.py")]
    done = subprocess.run(script, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert re.findall(r"^(\d)\. ", done.stdout, re.MULTILINE) == list("1234567")
    assert "PASS: static pass, compile pass, check pass, timing pass" in done.stdout
    assert "out_of_bounds: " in done.stdout and re.search(r"line \d+: \S", done.stdout)
    assert re.search(r"elements are wrong", done.stdout) and re.search(r"best: [\d.]+ µs modelled", done.stdout)
