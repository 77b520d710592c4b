# `make demo` and `make test` do everything on a fresh clone: virtual environment, install, run.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench train clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	# torch first and pinned: left to the resolver, pip fetches gigabytes of CUDA libraries.
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all]" --group dev --group integrations
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/e2graphrag demo --out time_machine.e2g

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest

bench: $(STAMP)
	$(BIN)/python benchmarks/entity_coverage.py --data ../shared/data --out benchmarks/results/entity_coverage.json
	$(BIN)/python benchmarks/novel.py --data ../shared/data --stub ../shared/tools/openai_stub.py --out benchmarks/results/novel.json

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
