# One door to everything: `make` lists it. Set-up is part of each target that needs it.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := .work/demo
JOBS   ?= 10000000
KILLS  ?= 100
LOGS   ?= ../shared/data/swf
# Where there is one core, pytest's second worker only costs; elsewhere two are enough for two minutes.
TEST_WORKERS ?= $(shell test "$$(nproc 2>/dev/null || echo 1)" -gt 1 && echo 2 || echo 0)

# The tests start hundreds of processes: each would compile the package again, and pytest all tests.
export PYTHONDONTWRITEBYTECODE :=

# Which Slurm `make lab` starts: 22.05, 24.11 or 26.05.
LAB    ?= 24.11

.PHONY: help setup lock lint check test dist man demo lab lab-down bench soak clean
.DEFAULT_GOAL := help

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

setup: $(READY)  ## make .venv with everything in it, from the pinned lock

$(READY): pyproject.toml requirements/test.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "forewarn needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Install one and name it: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment: its venv module is not installed." >&2; \
	  echo "Debian, Ubuntu: apt install python3-venv    (for PYTHON=python3.12: python3.12-venv)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/test.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock: $(READY)  ## pin again what pyproject.toml asks for (hashes, no index addresses)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade --generate-hashes \
	  --no-emit-index-url --no-annotate --custom-compile-command "make lock" pyproject.toml -o requirements/test.txt

lint: $(READY)  ## ruff, mypy, and the import order of the packages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint  ## lint, then the tests that need no real Slurm and are quick: while you work
	$(BIN)/pytest -q -n $(TEST_WORKERS) --dist loadgroup -m "not lab and not release and not slow"

test: lint  ## lint, then every test
	@# Once, and before tests that count seconds: else every worker and every service of a new machine compiles.
	$(BIN)/python -c "from forewarn.operate.precompile import compile_kernels; compile_kernels()"
	$(BIN)/pytest -n $(TEST_WORKERS) --dist loadgroup

dist: $(READY)  ## build the source archive, and the wheel from it, into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

man: $(READY)  ## write man/ from the command line, and packaging/forewarn.toml from the settings
	$(BIN)/python tools/man_pages.py
	$(BIN)/python tools/example_config.py

demo: $(READY)  ## the whole story on a simulated cluster: a model, a script checked, advice followed, a failure explained
	@BIN=$(BIN) DEMO=$(DEMO) sh tools/demo.sh

lab: $(READY)  ## start a real Slurm on this machine, as root, to try Forewarn on (LAB=22.05, 24.11 or 26.05)
	@$(BIN)/python -m lab up --slurm $(LAB)

lab-down: $(READY)  ## end it; its history is kept
	@$(BIN)/python -m lab down --slurm $(LAB)

bench: $(READY)  ## parsing, store, features, learning, assessments, a real Slurm: all that is measured (hours)
	$(BIN)/python bench/parsing.py
	$(BIN)/python -m bench.store_engines --jobs 1000000 --row-jobs 200000
	$(BIN)/python -m bench.store_live
	$(BIN)/python bench/features.py
	$(BIN)/python bench/simulate.py
	$(BIN)/python bench/ceiling.py
	test ! -d $(LOGS) || $(BIN)/python bench/online.py $(LOGS)
	test ! -d $(LOGS) || $(BIN)/python bench/search.py swf:$(LOGS)/SDSC-BLUE-2000-4.2-cln.swf.gz
	test ! -d $(LOGS) || $(BIN)/python bench/learning.py $(LOGS)
	test ! -d $(LOGS) || $(BIN)/python bench/usage.py $(LOGS)/*.swf.gz
	$(BIN)/python bench/advice.py
	$(BIN)/python bench/health.py
	$(BIN)/python bench/explaining.py
	$(BIN)/python bench/assess.py
	$(BIN)/python bench/engine.py
	$(BIN)/python -m bench.service
	$(BIN)/python -m bench.service --soak 10
	$(BIN)/python -m bench.live || test $$? -eq 3  # 3: no root, or no packages for a lab, which it says

soak: $(READY)  ## long proofs: kills of a writer and of a collector, ten million jobs, made-up requests (JOBS=n, KILLS=n for fewer)
	$(BIN)/python -m tests.store.crash --kills $(KILLS)
	$(BIN)/python -m tests.lab.kills --kills $$(( ($(KILLS) + 1) / 2 )) --slurm $(LAB) || test $$? -eq 3
	$(BIN)/python bench/ten_million.py --jobs $(JOBS)
	EXAMPLES=300 $(BIN)/pytest -q tests/serve/rest/test_schemathesis.py tests/serve/rest/test_fuzz.py

clean:  ## remove everything that was made here, .venv too
	rm -rf $(VENV) .work build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench lab packaging tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
