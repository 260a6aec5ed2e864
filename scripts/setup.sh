#!/usr/bin/env bash
# Makes the environment in $VENV: torch as pinned, the package, its model clients, and nvcc when there is none.
set -euo pipefail

need() {  # need PROGRAM PACKAGE
  command -v "$1" >/dev/null 2>&1 || { echo "error: $1 is missing. Install it with: apt-get install $2" >&2; exit 2; }
}
need "$PYTHON" python3
need g++ g++
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "error: $PYTHON is $("$PYTHON" --version); warpsmith needs Python 3.11 or newer." >&2; exit 2; }
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
  { echo "error: Python's venv is missing. Install it with: apt-get install python3-venv" >&2; exit 2; }

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
pip="$VENV/bin/python -m pip --disable-pip-version-check -q"
log="$VENV/setup.log"
extras=dev,models,postgres
if [ -z "${WARPSMITH_CUDA_HOME:-}" ] && ! command -v nvcc >/dev/null 2>&1; then
  extras=dev,models,postgres,nvcc
  echo "no nvcc on PATH: the compiler comes from PyPI's wheels"
fi
echo "setting up $VENV (a few minutes the first time; log in $log)"
{
  # The pinned torch first: a range would let the resolver take a build with several GB of CUDA libraries.
  $pip install -r <(grep '^torch' constraints.txt)
  $pip install -c constraints.txt -e ".[$extras]"
} >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "error: set-up failed; the whole log is $log" >&2; exit 3; }
