# stallwatch: `make` lists the targets. Everything is installed into .venv of this checkout.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check fmt bench golden

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
# python3.11 when it is there and works, else python3 when that is new enough.
PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: $(RUNTIME) ## the demo (FOR=20 ends it after 20 s), or the sidecar before a real engine: UPSTREAM=http://host:port
ifdef UPSTREAM
	$(BIN)/stallwatch run --upstream "$(UPSTREAM)" $(ARGS)
else
	$(BIN)/stallwatch demo $(if $(FOR),--for $(FOR)) $(ARGS)
endif

test: $(DEV) ## all tests, with the coverage gates (100 % of core, 90 % of the rest)
	tests/debian-packages
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine -q
	@rm -f .coverage.* # of processes that a test killed in the middle of writing one
	$(BIN)/coverage report --include='exporter/core/*' --fail-under=100
	$(BIN)/coverage report --omit='exporter/core/*' --fail-under=90

check: $(DEV) ## format, lint, types, import rules, size and naming rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -s tests/test_rules.py

fmt: $(DEV) ## format the code and apply the safe lint fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEV) ## CPU and added latency a relayed chunk, beside nginx and an aiohttp pass-through
	tests/debian-packages nginx
	$(BIN)/python -m benchmarks $(ARGS)

golden: $(DEV) ## write the expected timelines of the captures anew
	$(BIN)/python -m tests.golden $(ARGS)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "stallwatch needs Python 3.11 or newer (python3.11 or python3)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(RUNTIME) $@
