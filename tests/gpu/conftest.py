"""The tests on a GPU run the virtual GPU's corpora, which lie in its folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "machines" / "virtual"))
