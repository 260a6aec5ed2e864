"""The tests of exported packages share how these are made."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
