# Everything here needs only Python 3.11 or newer and make. PYTHON=python3.12 uses another interpreter; ARGS="…" is
# passed to the command: make test ARGS="-k queue", make run ARGS="--port 9000". WORKERS is the number of processes that
# run tests; many tests wait, so two for each core keep it busy. With WORKERS=0, the tests run in one process.
PYTHON ?= python3
ARGS ?=
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --quiet
# These stamps record what is installed; a change of pyproject.toml makes them stale.
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev

# Otherwise each process of the tests would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run cluster test test-all soak fuzz attack check bench docs page vendor build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(DEV) ## Create .venv with the service and the development tools

run: $(RUNTIME) ## Start the server on http://127.0.0.1:8000
	@$(BIN)/palimpsest serve $(ARGS)

cluster: $(DEV) ## Start a cluster on this machine, with workers to kill
	@$(BIN)/python -m scripts.cluster $(ARGS)

# A file that is named is run with all its tests.
test: $(DEV) ## Run the tests, without the extended and the slow ones
	@$(BIN)/python -m pytest --workers $(WORKERS) $(if $(findstring .py,$(ARGS)),,-m "not extended and not slow") $(ARGS)

test-all: $(DEV) ## Run all tests, as the gate does
	@$(BIN)/python -m pytest --workers $(WORKERS) $(ARGS)

soak: $(DEV) ## Run random users and faults for ten minutes, then check every invariant
	@$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(DEV) ## Send hostile input to every boundary, ten minutes each
	@$(BIN)/python -m tests.fuzz $(ARGS)

attack: $(DEV) ## Run every attack in docs/security.md with its full load
	@PALIMPSEST_TEST_LONG=1 $(BIN)/python -m pytest $(ARGS) \
		$$(grep -oE '`(unit|behavior|dashboard)/[^`]+::[^`]+`' docs/security.md | tr -d '`' | sort -u | sed 's|^|tests/|')

check: $(DEV) ## Check lint, format, types, layers and spelling; changes nothing
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/typos

bench: $(DEV) ## Measure speed and memory against the stated goals
	@$(BIN)/python -m benchmarks $(ARGS)

docs: $(DEV) ## Generate docs/settings.md, errors.md and architecture.md from the code
	@$(BIN)/python -m docs.generate

page: $(RUNTIME) ## Bundle the page into app/static/bundle after an edit, with npm
	@$(BIN)/python -m scripts.bundle

vendor: $(RUNTIME) ## Fetch the page's libraries into app/static/vendor, with npm
	@$(BIN)/python scripts/vendor.py

build: $(DEV) ## Build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist $(ARGS) .

clean: ## Remove the environment, caches and build results
	@rm -rf $(VENV) dist build htmlcov .coverage .coverage.* coverage.xml \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found. Install Python 3.11 or newer, or set its path: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Palimpsest needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Set another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "Creating $(VENV) (the first time takes a minute)"
	@$(PYTHON) -m venv $(VENV) || { echo "python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(INSTALL) --upgrade 'pip>=25.1'
	@$(INSTALL) --editable .
	@touch $@

# Most of these packages' modules are never imported; Python compiles the others when they are.
$(DEV): $(RUNTIME)
	@$(INSTALL) --no-compile --group dev
	@touch $@
