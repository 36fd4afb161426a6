# Every target sets up what it needs; the only prerequisite is Python 3.11 or newer.

.DEFAULT_GOAL := help
.PHONY: class-archive help run reproduce quick test lint types bench clean

BIN := .venv/bin
READY := .venv/.ready

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: class-archive  ## a live cluster, a discussion with joins and leaves, and its audit
	$(BIN)/vcubeps demo

reproduce: class-archive  ## the paper's evaluation, its sizes and 40 runs: report/index.html
	$(BIN)/vcubeps reproduce --profile paper --out report

quick: class-archive  ## the same in a minute or two, with fewer runs: report/index.html
	$(BIN)/vcubeps reproduce --profile quick --out report

test: class-archive  ## all tests and the examples in docstrings
	$(BIN)/pytest -n 2 --dist loadgroup

lint: $(READY) types  ## style, format, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(READY)  ## mypy --strict alone
	$(BIN)/mypy

bench: class-archive  ## speed of the live network beside others, the gateway, the core, the simulator, sweeps, the audit
	$(BIN)/python benchmarks/pubsub.py
	$(BIN)/python benchmarks/pauses.py
	$(BIN)/python benchmarks/churn.py
	$(BIN)/python benchmarks/detection.py
	$(BIN)/python benchmarks/gateway.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/audit.py

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

# Spark starts in half the time with it. Made once, outside the checkout; nothing to do if it is there.
class-archive: $(READY)
	@$(BIN)/python -m vcubeps.spark.class_archive
