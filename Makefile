# `make demo` shows what it does, `make check` is for every day, `make test` is the whole. Each builds its own environment
# first, once.
PYTHON ?= python3
BIN := .venv/bin
# A constraint must never turn into a multi-gigabyte CUDA download on a laptop: constraints.txt pins what is installed.
CONSTRAINTS ?= constraints.txt
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) --editable
# One thread a process: the tests' tensors are small, and threads of several processes wait for each other.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --maxprocesses 4

.PHONY: demo check test lint types fast unit docs faults mutants clean

demo: .venv/installed
	$(BIN)/dsgt compare dsgt dpsgd d2 sgd

# An answer within three minutes on two cores: all but the tests that are marked slow (tests/conftest.py says which).
check: lint types fast

test: lint types unit

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-test
	$(BIN)/mypy

fast: .venv/installed-test
	$(PYTEST) --dist worksteal -m 'not slow'

# A file in one process: real nodes that its tests share are started once. In the order of tests/conftest.py.
unit: .venv/installed-test
	$(PYTEST) --dist loadfile --no-loadscope-reorder --durations=10

# The documentation site, into site/; a broken link or a name without its place in the reference is an error.
docs: .venv/installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Kills, stops and starves real processes for some minutes; prints the table of docs/reliability.md.
faults: .venv/installed-test
	cd tests && ../$(BIN)/python -m faults.suite
	cd tests && ../$(BIN)/python -m faults.drift
	cd tests && ../$(BIN)/python -m faults.asynchronous

# Changes one line of the package at a time, in a copy, and sees that a test fails: some minutes, a table.
mutants: .venv/installed-test
	cd tests && ../$(BIN)/python -m mutants

.venv/installed: pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[cli]'
	touch $@

.venv/installed-test: .venv/installed
	$(INSTALL) '.[test]'
	touch $@

clean:
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
