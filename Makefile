# Every target sets up what it needs; the only prerequisite is Python 3.11 or newer.

.DEFAULT_GOAL := help
.PHONY: help run test lint types bench clean

BIN := .venv/bin
READY := .venv/.ready

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(READY)  ## the paper's figure 3, random schedules with faults, and points of figures 4 and 6
	$(BIN)/vcubeps tree --nodes 8 --source 2 --subscribers 0,2,3,5,7
	$(BIN)/vcubeps explore --schedules 2000 --seed 1 --faults crash,recover,suspect
	$(BIN)/vcubeps simulate one-publisher --set nodes=256,1024,4096 --set subscribers=0.25,1 --set preset=calibrated
	$(BIN)/vcubeps simulate many-publishers --set nodes=64,256,1024 --set propagation_ut=100 --set preset=calibrated

test: $(READY)  ## all tests and the examples in docstrings
	$(BIN)/pytest -n 2

lint: $(READY) types  ## style, format, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(READY)  ## mypy --strict alone
	$(BIN)/mypy

bench: $(READY)  ## speed of the protocol core and of the simulator
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/simulator.py

clean:  ## remove the environment, caches and build output
	rm -rf .venv build dist src/*.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The lock names every package, so nothing is resolved and the build backend is the locked one too.
$(READY): pyproject.toml requirements.lock
	@python=; \
	for candidate in python3.13 python3.12 python3.11 python3; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "make: no Python 3.11 or newer on PATH: install one and run make again" >&2; exit 1; \
	fi; \
	echo "setting up .venv with $$python: a minute or two, once"; \
	$$python -m venv .venv
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
