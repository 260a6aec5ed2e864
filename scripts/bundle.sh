#!/usr/bin/env bash
# bundle.sh PYTHON_VERSION FOLDER: this package's dependencies without torch, for a machine with no network.
set -euo pipefail
version=$1 folder=$2
wanted=$("$BIN/python" - <<'PY'
import re, tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
heavy = {"torch", "numpy"}  # a GPU machine brings its own
print(" ".join(d for d in project["dependencies"] if re.split(r"[<>=~! ]", d)[0] not in heavy), "pytest>=8 pytest-xdist>=3.6")
PY
)
rm -rf "$folder"
# shellcheck disable=SC2086 # the requirements are words
"$BIN/python" -m pip install -q --disable-pip-version-check --target "$folder" --only-binary=:all: \
  --python-version "$version" --implementation cp --no-compile $wanted
find "$folder" -name '*.dist-info' -prune -o -name tests -type d -print | xargs -r rm -rf
size=$(du -sm "$folder" | cut -f1)
[ "$size" -le 50 ] || { echo "error: $folder has $size MB; at most 50 are allowed" >&2; exit 3; }
echo "$folder: $size MB for Python $version. There: PYTHONPATH=$folder:src python3 -m warpsmith doctor"
