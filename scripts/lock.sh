#!/usr/bin/env bash
# lock.sh PYTHON FILE: install the package with its extras in a new environment and write the versions to FILE.
set -euo pipefail
python=$1 file=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
pip="$folder/venv/bin/python -m pip --disable-pip-version-check"
# torch keeps its version: a newer one is chosen by hand, since it decides which CUDA libraries are fetched.
torch=$(grep '^torch==' "$file")
$pip install -q "$torch"
$pip install -q "$torch" -e ".[dev,models,postgres,docs]"
{
  echo "# The versions that CI runs with; the package itself accepts the ranges of pyproject.toml. Renewed by: make lock"
  # Without torch's libraries, which follow from its version and differ between machines.
  $pip freeze --exclude-editable | sed 's/+cpu$//' | grep -Ev '^(nvidia-(cu|nc|nv)|triton|cuda)' | LC_ALL=C sort -f
} >"$folder/versions"
mv "$folder/versions" "$file"
echo "$file: $(grep -c == "$file") versions"
