# A fresh clone needs git, make and Python >= 3.11; `make test` makes the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
# More arguments for pytest: make test ARGS="-k lease -x"
ARGS ?=
# Most of a test is waiting, so more of them at a time than there are processors.
PROCESSES ?= 3

COMPAT = -m "compat and not slow and not chaos" -n $(PROCESSES) --dist worksteal
# PYTHON312=/path/to/python names an interpreter; otherwise PATH, then pyenv.
find_python = $(or $(PYTHON$(subst .,,$(1))),$(shell \
	python$(1) -c 'import sys; print(sys.executable)' 2>/dev/null || \
	{ prefix=$$(pyenv prefix $(1) 2>/dev/null) && echo "$$prefix/bin/python"; }))

.DEFAULT_GOAL := check
.PHONY: setup demo test lint types bench chaos docs site check compat compat-oldest FORCE

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "vtrr-queue needs Python 3.11 or later: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python -m vtrr_queue.demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python tools/luacheck.py

types: $(STAMP)
	$(BIN)/mypy --strict src

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

# CHAOS_SECONDS=300 of havoc, CHAOS_SEED=... repeats a plan, CHAOS_KILLS=20 for each recovery time.
chaos: $(STAMP)
	$(BIN)/python -m pytest -m chaos --timeout 900 -s $(ARGS)

docs: $(STAMP)
	$(BIN)/python -m pytest tests/docs $(addprefix tests/unit/test_,spec_coverage.py keys_table.py scripts_page.py) $(ARGS)

# Warnings are errors; -E because the list of guides is made of the files that are there.
site: $(STAMP)
	$(BIN)/python -m sphinx -b html -E -W --keep-going -n -q docs build/site
	@echo "build/site/index.html"

check: lint types test

# The corners of Celery, kombu and redis-py, then the newer Pythons that are found.
compat: compat-oldest compat-celery-5.6 compat-celery-5.7 compat-python-3.12 compat-python-3.13

compat-oldest: compat-celery-5.4

compat-celery-%: .compat/celery-%/.stamp FORCE
	.compat/celery-$*/bin/python -m pytest $(COMPAT) $(ARGS)

.compat/celery-%/.stamp: requirements/celery-%.txt pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable '.[test]' --constraint $<
	@touch $@

compat-python-%: FORCE
	@if test -n "$(call find_python,$*)"; then \
		$(MAKE) --no-print-directory --silent .compat/python-$*/.stamp && \
		.compat/python-$*/bin/python -m pytest $(COMPAT) $(ARGS); \
	else \
		echo "Python $* not found: skipped (PYTHON$(subst .,,$*)=... names one)"; \
	fi

.compat/python-%/.stamp: pyproject.toml
	test -x $(@D)/bin/python || $(call find_python,$*) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable '.[test]'
	@touch $@

.PRECIOUS: .compat/celery-%/.stamp .compat/python-%/.stamp
