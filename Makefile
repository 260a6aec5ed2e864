# The commands of the project. The environment is .venv; a second run reuses it.
PYTHON ?= python3
# `make bundle PYTHON=3.12` names a version to bundle for, not an interpreter to run.
INTERPRETER := $(if $(filter 3.%,$(PYTHON)),python3,$(PYTHON))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DOCS := .venv-docs
# Native code with a style of its own (.clang-format). Kernels are left out: their text is part of their identity.
NATIVE := $(shell find src/warpsmith/machines src/warpsmith/isolation/native src/warpsmith/evaluation/profile/native -name "*.cpp" -o -name "*.cc" -o -name "*.h" -o -name "*.cu")

.DEFAULT_GOAL := help
.PHONY: help setup demo test corpus test-slow test-gpu test-browser check format reformat lint types layers docs lock bundle clean

help:
	@echo "make demo          set up and show what warpsmith does on this machine"
	@echo "make test          the tests that need neither a GPU nor a browser"
	@echo "make test-slow     the tests that take minutes; SHARD=2/12 runs a part, a second run goes on with the rest"
	@echo "make test-gpu      the tests that need an NVIDIA GPU (uses the python on PATH)"
	@echo "make test-browser  the tests that look at reports in Debian's Chromium"
	@echo "make corpus        the verifiers on the whole labelled corpus (minutes)"
	@echo "make check         format, lint, types, layers, tests"
	@echo "make reformat      apply the format of Python and native code"
	@echo "make docs          the documentation site in build/site, with its links checked"
	@echo "make lock          write the newest versions of all dependencies to constraints.txt"
	@echo "make bundle PYTHON=3.12   dependencies for a GPU machine with no network"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh
	@PYTHON="$(INTERPRETER)" VENV="$(VENV)" bash scripts/setup.sh
	@touch $(STAMP)

demo: setup
	@$(BIN)/warpsmith doctor
	@echo
	$(BIN)/warpsmith tasks filter layernorm
	@echo
	$(BIN)/warpsmith eval layernorm src/warpsmith/tasks/suite/layernorm/seed_forward.cu
	@echo
	$(BIN)/warpsmith optimize layernorm
	@echo
	$(BIN)/warpsmith report --profile --html demo-report.html

test: setup
	$(BIN)/pytest -m "not gpu and not browser and not slow" -n 2 --dist loadfile

# SHARD=2/12: part 2 of 12. Tests that have passed with the files of now are not run again; build/shards remembers them.
SHARD ?= 1/1
test-slow: setup
	$(BIN)/pytest -m "slow and not gpu and not browser" -n 2 --dist worksteal --shard $(SHARD)

# JOBS=6: so many at once; the GPU is leased. pytest-benchmark, where it is installed, warns of that, and warnings are errors.
test-gpu:
	PYTHONPATH=src$${PYTHONPATH:+:$$PYTHONPATH} $(INTERPRETER) -m pytest -m gpu -v -p no:cacheprovider -p no:benchmark \
		$(if $(JOBS),-n $(JOBS) --dist worksteal)

test-browser: setup
	$(BIN)/pytest -m browser

corpus: setup
	$(BIN)/warpsmith calibrate --dry-run

check: format lint types layers test

format: setup
	$(BIN)/ruff format --check src tests benchmarks scripts docs/walkthrough.py
	$(BIN)/clang-format --dry-run -Werror $(NATIVE)

# What format checks, applied.
reformat: setup
	$(BIN)/ruff format src tests benchmarks scripts docs/walkthrough.py
	$(BIN)/clang-format -i $(NATIVE)

lint: setup
	$(BIN)/ruff check src tests benchmarks scripts docs/walkthrough.py

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/pytest -q tests/meta/test_layers.py

# The site has an environment of its own: its tools need neither torch nor the package, which is read as text.
$(DOCS)/.ready: pyproject.toml constraints.txt
	@$(INTERPRETER) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt $$($(INTERPRETER) scripts/pages.py requirements)
	@touch $@

docs: $(DOCS)/.ready
	@$(DOCS)/bin/python scripts/pages.py stage
	NO_COLOR=1 $(DOCS)/bin/zensical build --clean --strict
	$(DOCS)/bin/python scripts/pages.py check

lock:
	bash scripts/lock.sh "$(INTERPRETER)" constraints.txt

bundle: setup
	@BIN="$(BIN)" bash scripts/bundle.sh "$(if $(filter 3.%,$(PYTHON)),$(PYTHON),3.12)" bundle

clean:
	rm -rf $(VENV) $(DOCS) bundle build dist
