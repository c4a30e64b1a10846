# The main job is `make build`. Everything installs into .venv, or into the virtual environment that is active.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
PYTHON ?= python3

ifdef VIRTUAL_ENV
VENV := $(VIRTUAL_ENV)
else
VENV := .venv
endif
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
INSTALLED := $(VENV)/.logos-installed
TESTABLE := $(VENV)/.logos-testable

.PHONY: build test test-all soak check help

help:
	@echo "make build     install LOGOS without torch and build the example programs"
	@echo "make test      ruff, mypy and the fast tests (minutes)"
	@echo "make test-all  also the slow tests, which download a model once"
	@echo "make soak      the property tests with many more examples, and 500 killed builds"

build: $(INSTALLED)
	$(BIN)/logos build
	@echo
	@echo "logos is $(BIN)/logos. Run a program:    $(BIN)/logos run examples/first/first.lg --set 'x=[[1, 2, 3]]'"
	@echo "Read on:                docs/getting-started.md"

# Two at a time, a file to a worker: most tests wait for a command that they started.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

test: check
	$(PYTEST)

test-all: check
	$(PYTEST) -m "not gpu"

soak: $(TESTABLE)
	$(BIN)/python -m pytest -m "hypothesis and not gpu" --hypothesis-profile=soak
	LOGOS_MUTATIONS=10000 $(BIN)/python -m pytest tests/unit/test_mutations.py
	LOGOS_KILLS=500 $(BIN)/python -m pytest -m slow tests/end_to_end/test_killed_builds.py tests/end_to_end/test_shared_cache_kills.py

check: $(TESTABLE)
	$(BIN)/ruff check
	$(BIN)/mypy

# A stamp newer than these says that the environment is as they want it; sources need none, the install being editable.
$(INSTALLED): pyproject.toml Makefile | $(BIN)/python
	$(PIP) install -q -e .
	@touch $@

$(TESTABLE): pyproject.toml constraints.txt Makefile | $(BIN)/python
	$(PIP) install -q -e ".[test,torch]" -c constraints.txt
	@touch $@ $(INSTALLED)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
