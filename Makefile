# Holdfast's commands. Each sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
RUNS   := $(VENV)/.runs
REQS   := requirements/runtime.txt requirements/dev.txt requirements/transitive.txt
TESTS  ?= tests
JOBS   ?= 3
ARGS   ?=
MINUTES ?= $(if $(filter fuzz,$(MAKECMDGOALS)),10,60)
TARGET ?= filters
DIST   ?= dist

# Processes are started by the hundred here, and half of what a start costs is compiling, where nobody may keep
# what was compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup etcd ldap run demo test check dist checklists settings sim soak long bench fuzz clean
.DEFAULT_GOAL := help

help:            ## what can be made
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## the .venv with holdfast in it (idempotent)

$(RUNS): pyproject.toml requirements/runtime.txt requirements/transitive.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Holdfast needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) ..."
	@$(BIN)/python -m pip install --quiet -r requirements/runtime.txt setuptools wheel -c requirements/transitive.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(STAMP): $(RUNS) $(REQS)
	@echo "setting up what tests and checks need ..."
	@$(BIN)/python -m pip install --quiet $(foreach r,$(REQS),-r $(r))
	@sync  # what was installed is on the disk before anything that syncs has to wait for it
	@touch $@

etcd:            ## Debian's etcd server, when it can be installed
	@bash scripts/ensure-debian etcd etcd-server required

ldap:            ## Debian's LDAP clients, when they can be installed
	@bash scripts/ensure-debian ldapsearch ldap-utils required
	@bash scripts/ensure-debian /usr/lib/python3/dist-packages/ldap/__init__.py python3-ldap required

run: $(RUNS)     ## a domain of three hosts with the ledger of examples/, and a directory of two masters
	@echo "in another shell, here:"
	@echo "  export PATH=\$$PWD/$(BIN):\$$PATH"
	@echo "  holdfast call ledger deposit '\"alice\"' 5"
	@echo "  holdfast chaos kill-primary ledger"
	@echo "  holdfast call ledger balance '\"alice\"'"
	@echo "  holdfast group history ledger"
	@bash scripts/run $(BIN)/holdfast

demo: $(RUNS)    ## a ledger under load, its primary killed every 3 s, every call counted
	@$(BIN)/holdfast demo

test: setup etcd ldap ## every test, in its short version; what CI runs
	@$(BIN)/python -m pytest -q -n $(JOBS) --durations 20 --dist loadfile --no-loadscope-reorder $(ARGS) $(TESTS)

check: setup     ## format, lint, types, layering
	@$(BIN)/ruff format --check src tests
	@$(BIN)/ruff check src tests
	@$(BIN)/mypy
	@$(BIN)/mypy tests/typing
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/unit/test_layering.py

dist: setup      ## the wheel, in dist/; needs no network
	@rm -rf build
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(DIST) .
	@rm -rf build
	@ls $(DIST)/holdfast-*.whl

checklists:      ## write which tests show which rows of docs/checklists, and the totals there
	@$(PYTHON) scripts/checklists --write

settings: setup  ## write the tables of docs/settings.md from the config structs
	@$(BIN)/python scripts/settings --write

sim: setup       ## a three-minute mix of simulations and every planted bug
	@$(BIN)/holdfast sim mix --minutes 3

soak: setup      ## an hour of real chaos on real processes, every call counted
	@$(BIN)/holdfast soak --minutes $(MINUTES)

long: setup etcd ldap ## the same tests in their long versions: more kills, power cuts and seeds
	@$(BIN)/python -m pytest -q --long --timeout 3600 $(TESTS)

bench: setup etcd ## every benchmark, beside its peer or the machine's limit; a missed target is no error
	@$(BIN)/python -m pip install --quiet -r requirements/bench.txt
	@bash scripts/ensure-debian redis-server redis-server
	@bash scripts/ensure-debian /usr/sbin/slapd slapd
	@bash scripts/ensure-debian ldclt 389-ds-base
	@bash scripts/ensure-debian strace strace
	@$(BIN)/holdfast bench all || [ $$? -eq 4 ]

fuzz: setup      ## ten minutes of fuzzing of what strangers send (TARGET=..., of tests/fuzz/table.py; MINUTES=10)
	@$(BIN)/python tests/fuzz/fuzz.py $(TARGET) --known
	@$(BIN)/python -m pip install --quiet -r requirements/fuzz.txt
	@$(BIN)/python tests/fuzz/fuzz.py $(TARGET) -max_total_time=$$(($(MINUTES) * 60)) -timeout=60 -rss_limit_mb=1024

clean:           ## remove what these commands made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .holdfast .holdfast-sim build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
