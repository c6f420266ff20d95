SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo demo-llama test check fmt fmt-check lint types arrows deep fuzz soak conformance lab bench bench-quick docs docs-check golden lock clean

help:  ## list these words
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# One environment, filled step by step: `run` is what a collector needs, `dev` adds the tests' tools, `llama` a real engine.
# Each step is a stamp, so that the first `make demo` on a new machine installs as little as it can.
# With it comes the compiled part, where a compiler and Python.h are (`hatch_build.py`).
$(VENV)/stamp-%: requirements/%.txt pyproject.toml hatch_build.py sidecar/native/compiled.pyx
	@$(PYTHON) -c 'import sys; sys.exit("gapline needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || { echo "making the environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing requirements/$*.txt"
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/$*.txt
	@$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

setup: $(VENV)/stamp-run $(VENV)/stamp-dev  ## make the environment with everything the tests need

demo: $(VENV)/stamp-run  ## three hops, a planted stall, the verdict and its picture
	@$(BIN)/gapline demo

demo-llama: $(VENV)/stamp-run $(VENV)/stamp-llama  ## the same on a real engine (llama.cpp with a tiny random model), frozen for 3 s
	@$(BIN)/gapline demo --worker llama --fault model-worker:freeze=3

test: setup  ## every test: unit, properties, house rules, end to end
	@$(BIN)/python -m pytest

check: fmt-check lint types arrows docs-check test  ## what must hold before a change lands

fmt: setup  ## format, and mend what can be mended safely
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

fmt-check: setup
	@$(BIN)/ruff format --check .

lint: setup
	@$(BIN)/ruff check .

types: setup
	@$(BIN)/mypy

arrows: setup  ## who may import whom
	@$(BIN)/lint-imports

deep: setup  ## the properties with many more examples
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -m "not e2e" --timeout 1200

fuzz: setup  ## every parser of what a peer sends, coverage-guided, for a minute
	@$(BIN)/python -m tests.fuzz --seconds 60

soak: setup  ## a sidecar under mixed faults for two minutes: one record each, nothing grows
	@$(BIN)/python -m tests.soak --minutes 2

conformance: setup  ## the contract of the proxy over every way of passing bodies on
	@$(BIN)/python -m tests.conformance.tiers

SEED ?= 1
N ?= 10
lab: setup  ## faults drawn from SEED in N answers of real chains: is every verdict right?
	@$(BIN)/python -m tests.lab --seed $(SEED) --cases $(N)

bench: setup  ## what an event costs by us, nginx, HAProxy, Envoy and Python's proxies: half an hour
	@$(BIN)/python -m tests.bench --install

bench-quick: setup  ## the same by us, nginx and a plain aiohttp proxy, figures 1 to 5: two minutes
	@$(BIN)/python -m tests.bench --install --quick

docs: setup  ## write the tables and maps in the READMEs anew
	@$(BIN)/python -m tests.house.docs write

docs-check: setup
	@$(BIN)/python -m tests.house.docs check

golden: setup  ## write golden files anew; the frozen timeline vectors are never touched
	@GAPLINE_REWRITE_GOLDEN=1 $(BIN)/python -m pytest -m "not e2e" -q

LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet
lock:  ## pin every dependency by hash, without addresses (needs uv)
	$(LOCK) pyproject.toml --extra collector --output-file requirements/run.txt
	$(LOCK) pyproject.toml --extra collector --extra llama --output-file requirements/llama.txt
	$(LOCK) pyproject.toml --extra dev --extra peers --extra llama --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --extra collector --extra kubernetes --output-file requirements/image.txt
	$(LOCK) --group build --output-file requirements/build.txt
	$(LOCK) --group k8s-tools --output-file requirements/k8s-tools.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info
