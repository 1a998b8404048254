# Two commands do everything: `make demo` and `make test`. Each builds its own environment first, once.
PYTHON ?= python3
BIN := .venv/bin
# A constraint must never turn into a multi-gigabyte CUDA download on a laptop: constraints.txt pins what is installed.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: demo test lint types unit docs faults clean

demo: .venv/installed
	$(BIN)/dsgt compare dsgt dpsgd d2 sgd

test: lint types unit

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-test
	$(BIN)/mypy

# One thread a process: the tests' tensors are small, and threads of several processes wait for each other. A file in one
# process: real nodes that its tests share are started once.
unit: .venv/installed-test
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# The documentation site, into site/; a broken link or a name without its place in the reference is an error.
docs: .venv/installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Kills, stops and starves real processes for some minutes; prints the table of docs/reliability.md.
faults: .venv/installed-test
	cd tests && ../$(BIN)/python -m faults.suite
	cd tests && ../$(BIN)/python -m faults.drift

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) '.[cli]'
	touch $@

.venv/installed-test: .venv/installed
	$(INSTALL) '.[test]'
	touch $@

clean:
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
