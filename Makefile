# Everything a developer does here. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

SOURCES := $(shell find voltha_coord twisted -name '*.py' 2>/dev/null) voltha_coord/py.typed README.md LICENSE
TYPED := $(shell for d in voltha_coord twisted/plugins tests tools benchmarks examples; do \
	find $$d -name '*.py' 2>/dev/null | grep -q . && echo $$d; done)

# What is asked for by name is always done.
.PHONY: help demo test lint types simulate hunt bench consul install wheel clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1#\2/p' Makefile | column -t -s '#' 2>/dev/null || \
		sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1: \2/p' Makefile

demo: $(VENV)/.installed ## run a cluster of three on an embedded Consul; DEMO_SECONDS=20 ends it, CONSUL=host:port uses a real one
	@exec $(BIN)/python examples/demo.py

test: $(VENV)/.installed ## lint, types and all tests; TEST=tests.test_x runs only those, JOBS=2 in parallel, CONSUL_BIN=path uses that Consul
	@consul=$$(tools/get-consul .consul | tail -n 1); \
	CONSUL_BIN=$$consul exec tools/run-tests $(TEST)

lint: $(VENV)/.installed ## ruff: rules and format
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.installed ## mypy, strict
	@$(BIN)/mypy $(TYPED)

simulate: $(VENV)/.installed ## play randomised faults on simulated clusters: SEEDS=200, from SEED_BASE=0 on, LEADER=balanced
	@exec $(BIN)/python -m tests.simulation run --seeds $${SEEDS:-200} --base $${SEED_BASE:-0} --leader $${LEADER:-balanced}

hunt: $(VENV)/.installed ## let the simulator find each of twelve deliberate bugs
	@exec $(BIN)/python -m tests.simulation hunt

bench: $(VENV)/.installed consul ## run the benchmarks: all, or BENCH=takeover; REPEAT=5 each so often, QUICK=1 once, without the original
	@export CONSUL_BIN=$${CONSUL_BIN:-$(CURDIR)/.consul/consul} BENCH_REPEAT=$(or $(REPEAT),$(if $(QUICK),1)); \
	[ -z "$(QUICK)" ] || export BENCH_ORIGINALS=0 BENCH_SECONDS=5; \
	$(BIN)/python benchmarks/run.py $(BENCH)

consul: ## get a real Consul into .consul/
	@tools/get-consul .consul

install: $(VENV)/.installed ## make the environment and install the package into it

wheel: $(VENV)/.installed ## build the wheel into dist/
	@tools/build-wheel dist $(BIN)/python

clean: ## remove all that was made here
	rm -rf $(VENV) .consul build dist *.egg-info .mypy_cache .ruff_cache .hypothesis _trial_temp* .coverage*
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
	find . -name dropin.cache -not -path './.git/*' -delete

# The environment, with what the package and its tests need.
$(VENV)/.made: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Python 3.11 or newer is needed; PYTHON=python3.x make … chooses one" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "make: this Python makes no environments: apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV), a minute or two …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install 'setuptools>=68' wheel
	@wheel=$$(tools/build-wheel $(VENV)/wheel $(BIN)/python); $(PIP) install "$$wheel[test]"
	@touch $@

# The package itself, again whenever a source has changed.
$(VENV)/.installed: $(VENV)/.made $(SOURCES)
	@wheel=$$(tools/build-wheel $(VENV)/wheel $(BIN)/python); \
	$(PIP) install --force-reinstall --no-deps "$$wheel"
	@touch $@
