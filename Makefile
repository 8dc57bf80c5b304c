# Needs git, make and Python 3.11 or later; everything else is installed from package registries.
PYTHON ?= python3
UV_VERSION := 0.13.8
PROVIDER ?= local
DIR ?= .playground
TOOLS := .tools
UV := $(TOOLS)/bin/uv
PIP := install --quiet --disable-pip-version-check
RUN := $(UV) run --locked --quiet

.PHONY: demo demo-down test lint e2e bench crds
.NOTPARALLEL:

demo: .venv/synced
	$(RUN) stowage playground up --members 3 --dir $(DIR)
	$(RUN) stowage playground demo --dir $(DIR)

demo-down: .venv/synced
	$(RUN) stowage playground down --dir $(DIR)

test: lint
	$(RUN) python -m stowage.playground.build
	$(RUN) pytest

lint: .venv/synced
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) lint-imports
	$(RUN) python -m crds.generate --check

e2e: .venv/synced
	$(RUN) pytest e2e --provider $(PROVIDER)

bench: .venv/synced
	@for each in $$(grep -l '^if __name__' benchmarks/*.py); do \
	  echo "== $$each"; $(RUN) python -m benchmarks.$$(basename $$each .py) || exit 1; done

crds: .venv/synced
	$(RUN) python -m crds.generate

.venv/synced: pyproject.toml uv.lock $(UV)
	@echo "Installing the project and its tools into .venv"
	@$(UV) sync --locked --python $(PYTHON)
	@touch $@

# A virtual environment with pip in it; where Python comes without ensurepip (Debian), its own pip.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing uv $(UV_VERSION) into $(TOOLS)"
	@rm -rf $(TOOLS)
	@if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	  $(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/python -m pip $(PIP) uv==$(UV_VERSION); \
	elif $(PYTHON) -c 'import pip' 2>/dev/null; then \
	  $(PYTHON) -m pip $(PIP) --target $(TOOLS) uv==$(UV_VERSION); \
	else \
	  echo "$(PYTHON) has neither venv nor pip: on Debian and Ubuntu, apt install python3-venv"; exit 1; \
	fi
