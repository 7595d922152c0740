# The one list of commands; continuous integration calls the same targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
T ?= main
B ?=
PEERS ?=
PY := .venv/bin/python

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: dev
dev: .venv/.ready ## Make .venv with sf, starforge-console, forgelet and every tool

.venv/.ready: requirements.lock core/pyproject.toml server/pyproject.toml forgelet/pyproject.toml tools/dev.sh
	@PYTHON=$(PYTHON) tools/dev.sh

.PHONY: check
check: dev ## Style, types, import contracts, sizes, dependencies and documents (one line each)
	@$(PY) -m tools.check

.PHONY: fix
fix: dev ## Apply what the formatter, the linter and the document generators can mend themselves
	@.venv/bin/ruff check -q --fix --exit-zero . && .venv/bin/ruff format -q . && $(PY) -m tools.docs_check --write && $(PY) -m tools.node_lock --write

.PHONY: test
test: dev ## Everything but the end-to-end legs: unit, property, conformance, one real engine
	@tools/needs.sh engine interpreters registry rsync tini
	@$(PY) -m tools.legs test

.PHONY: test-fast
test-fast: dev ## The inner loop: unit and property tests, no engine
	@$(PY) -m tools.legs fast

.PHONY: e2e
e2e: dev ## One end-to-end leg on real daemons: make e2e T=main
	@tools/needs.sh $(if $(filter postgres,$(T)),postgres,engine tini) $(if $(filter pages,$(T)),browser) $(if $(filter node recovery postgres,$(T)),clock) $(if $(filter install,$(T)),systemd) $(if $(filter deploy,$(T)),systemd proxy browser) $(if $(filter trl,$(T)),frameworks) $(if $(filter slurm,$(T)),slurm)
	@$(PY) -m tools.legs e2e-$(T)

.PHONY: test-all
test-all: dev ## Every leg there is, with one last line of counts; hours, and frameworks are fetched once
	@tools/needs.sh engine interpreters clock postgres registry rsync slurm tini browser systemd proxy frameworks
	@$(PY) -m tools.legs --all

.PHONY: faults
faults: dev ## Break a fleet at random and check that nothing is lost or doubled: make faults ROUNDS=5 SEED=1
	@tools/needs.sh engine tini
	@ROUNDS=$(ROUNDS) SEED=$(SEED) $(PY) -m tools.faults

.PHONY: simulate
simulate: dev ## Break installs at random in virtual time and check that nothing is lost or doubled: make simulate SEEDS=100
	@SEEDS=$(SEEDS) SEED=$(SEED) $(PY) -m simulation

.PHONY: demo
demo: ## Train a small model here from an empty folder and check it; FLEET=node: on a machine that joins a fleet
	@PYTHON=$(PYTHON) tools/demo.sh

.PHONY: run
run: dev ## Serve a console with real jobs in every state until Ctrl-C
	@tools/needs.sh engine tini
	@$(PY) -m tools.run

.PHONY: screenshots
screenshots: dev ## Take pictures of every page into build/pictures/ and docs/pictures/
	@tools/needs.sh engine tini browser
	@$(PY) -m tools.screenshots

.PHONY: bench
bench: dev ## Ratios against what a user would pick instead: make bench B=cli_help for one, PEERS=1 with other products
	@tools/needs.sh engine tini
	@PEERS=$(PEERS) $(PY) -m bench $(B)

.PHONY: docs
docs: dev ## Build the documentation into build/site
	@tools/docs.sh

.PHONY: build
build: dev ## Build the three wheels into dist/
	@rm -rf dist && .venv/bin/pip wheel -q --no-deps --no-build-isolation --no-index -w dist ./core ./server ./forgelet && ls dist

.PHONY: lock
lock: dev ## Write requirements.lock anew from the declared dependencies
	@tools/lock.sh

.PHONY: ci
ci: check ## What continuous integration runs: the checks and every leg marked ci in tests/floors.toml
	@tools/needs.sh engine interpreters registry rsync tini browser systemd clock proxy
	@$(PY) -m tools.legs --ci
