# Needs git, make and Python 3.11 or later; everything else is installed from package registries.
PYTHON ?= python3
UV_VERSION := 0.13.8
PROVIDER ?= local
DIR ?= .playground
# Other nodes of kind than its newest: make demo NODE_IMAGE=…
NODES := $(if $(NODE_IMAGE),--node-image=$(NODE_IMAGE))
TOOLS := .tools
UV := $(TOOLS)/bin/uv
PIP := install --quiet --disable-pip-version-check
RUN := $(UV) run --locked --quiet

SECONDS ?= 300
RUNS ?= 1

# Tests that use servers wait half of the time: more workers than cores.
BESIDE := --dist=loadgroup --no-loadscope-reorder --numprocesses
CHECKS := mypy 'python -m crds.generate --check' 'python -m website.monitoring --check' \
  'python -m website.reference --check' 'python -m website.man --check' 'python -m stowage.packaging --check' 'ruff check' 'ruff format --check' lint-imports 'deptry .'
# A test starts many processes of ours, and each would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-down test test-all lint e2e chaos chaos-gangs chaos-rollouts bench figures crds docs reference screenshots dist
.NOTPARALLEL:

demo: .venv/synced
	$(RUN) stowage playground up --members 3 --dir $(DIR) $(NODES)
	$(RUN) stowage playground demo --dir $(DIR)

demo-down: .venv/synced
	$(RUN) stowage playground down --dir $(DIR)

ifdef T
# One file, folder or test: make test T=tests/controller/test_filters.py
test: .venv/synced
	$(RUN) pytest "$$T"
else
test: lint
	$(RUN) python -m stowage.toolchain.build
	$(RUN) pytest $(BESIDE)=4 -m "not long and not perf"
endif

# What waits for real time-outs, repeated kills and long chaos, and each property with twenty times the
# examples, drawn anew. Chaos has the machine to itself, as beside others a member is slow for seconds,
# which is one that is away. So have the tests that judge a clock, processor time or memory.
test-all: test
	$(RUN) pytest $(BESIDE)=6 --hypothesis-profile=long -m "(long or property) and not perf" --ignore=e2e/test_chaos.py
	$(RUN) pytest -m long e2e/test_chaos.py
	$(RUN) pytest -m perf
	$(RUN) python -m benchmarks.steps --judge

# Two at a time, the longest first; each says what it found when it has ended.
lint: .venv/synced
	@printf '%s\n' $(CHECKS) | $(RUN) xargs -P 2 -I CHECK sh -c \
	  'found=$$($$0 2>&1); code=$$?; printf "%s\n" "== $$0" "$$found"; exit $$code' CHECK

# On kind each wait may take longer, and hence each test. BASE=… makes the image on another one.
e2e: .venv/synced
	$(RUN) pytest e2e --provider $(PROVIDER) $(if $(filter kind,$(PROVIDER)),--timeout=1500) $(NODES) $(if $(BASE),--base=$(BASE))

# SEED=7 repeats a run's faults and edits; RUNS=20 makes so many runs with one seed after the other.
# SHARDS=3 has the members shared out, PULL=1 the last one in mode Pull.
chaos: .venv/synced
	$(RUN) python -m stowage.toolchain.build
	$(RUN) python -m e2e.chaos --seconds $(SECONDS) --runs $(RUNS) $(if $(SEED),--seed $(SEED)) $(if $(SHARDS),--shards $(SHARDS)) $(if $(PULL),--pull)

# Forty gangs, each with its quorum on the members or with nothing; SEED and RUNS as above.
chaos-gangs: .venv/synced
	$(RUN) python -m stowage.toolchain.build
	$(RUN) python -m e2e.chaos gangs --runs $(RUNS) $(if $(SEED),--seed $(SEED))

# Staged rollouts with bad images; SECONDS, SEED and RUNS as above.
chaos-rollouts: .venv/synced
	$(RUN) python -m stowage.toolchain.build
	$(RUN) python -m e2e.chaos rollouts --seconds $(SECONDS) --runs $(RUNS) $(if $(SEED),--seed $(SEED))

bench: .venv/synced
	@for each in $$(grep -l '^if __name__' benchmarks/*.py); do \
	  echo "== $$each"; $(RUN) python -m benchmarks.$$(basename $$each .py) || exit 1; done

# What a release is held by, in about sixteen minutes on two quiet cores. With FULL=1 the fleet of
# simulated members has 10,000 Workloads, and shards have 1,000 members: half an hour more.
figures: .venv/synced
	$(RUN) python -m benchmarks.gangs
	$(RUN) python -m benchmarks.latency
	$(RUN) python -m benchmarks.rates
	$(RUN) python -m benchmarks.hubcost
	$(RUN) python -m benchmarks.members --workloads $(if $(FULL),50,10)
	$(RUN) python -m benchmarks.scale $(if $(FULL),--members 1000)

crds: .venv/synced
	$(RUN) python -m crds.generate

# docs/images/ui/, and what a screen reader is told of each page.
screenshots: .venv/synced
	WRITE_PICTURES=1 $(RUN) pytest tests/web/test_pictures.py

# docs/reference/, from the CRDs, commands, models, metrics, enums and roles; deploy/man/ from the commands.
reference: .venv/synced
	$(RUN) python -m website.reference
	$(RUN) python -m website.man

# The documentation site in build/site: open build/site/index.html, no server is needed.
docs: .venv/synced
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --strict

# What a release consists of, in dist/: the same bytes for the same commit. Helm 3 would write the time into the chart, and
# Helm 4 writes that of the files.
dist: .venv/synced
	@rm -rf dist build/chart
	@$(UV) build --quiet
	@cp deploy/install/install.yaml deploy/install/install-1.30.yaml dist
	@mkdir -p build/chart && cp -r deploy/charts/stowage build/chart && find build/chart -exec touch -d @1577836800 {} +
	@$$($(RUN) python -m stowage.toolchain.build helm4) package build/chart/stowage --destination dist

.venv/synced: pyproject.toml uv.lock $(UV)
	@echo "Installing the project and its tools into .venv"
	@$(UV) sync --locked --compile-bytecode --python $(PYTHON)
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
