# Everything happens in .venv; the first target that needs it makes it from requirements.lock.
# Nothing here needs more than Debian's git, make and Python 3.11 with venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
LOCKED := $(VENV)/.locked
READY  := $(VENV)/.ready
TESTED := $(VENV)/.tested
JOBS   ?= 2
# Whoever has nothing left to do takes half of what another process has before it: slow tests stand side by side.
PARALLEL = -n $(JOBS) --dist worksteal

# Python keeps the bytecode of what it loads, whatever the environment says: the tests start some hundred processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help venv demo serve test test-reach browser soak test-fast lint format compiled bench migration lock docs clean

help:  ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(READY)  ## make the environment (.venv) from the hashed lock

demo: compiled  ## GPT-2 small on eight GPUs through the service: search, execute and check three plans
	$(BIN)/tapestry demo

serve: $(READY)  ## the API and the dashboard on http://127.0.0.1:8000, with a worker beside them
	$(BIN)/tapestry serve

test: $(TESTED) browser  ## everything: style, types, dependencies, all tests
	$(MAKE) --no-print-directory --jobs=2 --output-sync lint compiled
	$(BIN)/python -m pip check
	$(BIN)/python -m pytest $(PARALLEL) -m "not reach"

test-reach: $(TESTED) compiled  ## all cases that compare with foreign libraries; `make test` takes one of each kind
	$(BIN)/python -m pytest $(PARALLEL) -m "reach or rotating"

browser:  ## Chromium and libfaketime for tests, if they are missing and this is Debian, as root
	@.ci/browser

MINUTES ?= 3
SEED ?= 0
soak: compiled browser  ## kill, stop and disturb a service on both databases for MINUTES (3), and check that nothing is lost
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED)

test-fast: compiled  ## the quick part: style and the tests not marked slow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not reach"

lint: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.project.types

compiled: $(READY)  ## compile the loops of the search, kept until they change
	$(BIN)/python -m tests.compiling

format: $(READY)  ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## all benchmarks, briefly; the figures go into benchmarks/results/
	$(BIN)/python -m benchmarks.run_all

docs: $(READY)  ## build the documentation into site/; broken links are errors
	$(BIN)/mkdocs build --strict

migration: $(READY)  ## a new step of the database, from what changed in the tables: MESSAGE="what it does"
	$(BIN)/python -m tapestry.service.store.migrations "$(MESSAGE)"

# The locks carry hashes but no addresses, so any mirror will do. One is for development (base, dev, and what the image has).
# Two agree with it: one for the image of the service (base, postgres, dask, OpenTelemetry, and setuptools, which installs the
# program itself), and one for all tests (jax, pyarrow, and what torch needs). torch itself is pinned by its version alone: each index offers another build of it.
COMPILE = UV_CUSTOM_COMPILE_COMMAND="make lock" build/lock/bin/uv pip compile --quiet --no-config \
    --python-version 3.11 --generate-hashes $(LOCK_FLAGS)

lock:  ## resolve pyproject.toml into requirements.lock, requirements-service.lock and requirements-test.lock
	mkdir -p build
	test -x build/lock/bin/uv || ($(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv)
	$(COMPILE) --extra dev --extra dask --extra otel pyproject.toml --output-file requirements.lock
	echo "setuptools>=77" | $(COMPILE) --constraints requirements.lock --extra postgres --extra dask --extra otel \
	    pyproject.toml - \
	    --output-file requirements-service.lock
	printf '%s\n' array-api-compat filelock fsspec sympy | \
	    $(COMPILE) --constraints requirements.lock --extra jax --extra dask --extra parquet --extra otel pyproject.toml - \
	    --output-file requirements-test.lock

clean:  ## remove the environment and everything built
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(LOCKED): requirements.lock
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
	touch $@

$(READY): $(LOCKED) pyproject.toml
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

$(TESTED): $(READY) requirements-test.lock
	$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements-test.lock
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation --editable '.[test]'
	touch $@
