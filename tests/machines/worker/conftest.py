"""Lets these tests use the artifacts of the runtime's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "virtual" / "runtime"))
