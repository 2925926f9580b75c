# Every target sets up what it needs; `make` alone lists them.
#
# What is made outside the sources: .venv (Python), .cache/node (the Kaitai compiler),
# docs/_build (the pages). `make clean` removes the products, `make distclean` also the tools.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# The first Python that is new enough. Looked up when a recipe runs, not when this file is
# read, so that `make test` sees what `make system` has just installed.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
SETUP_STAMP := $(VENV)/.setup-stamp
EXAMPLES := $(patsubst %/pyproject.toml,%,$(wildcard examples/*/pyproject.toml))

KSC_VERSION := 0.11.0
YAML_VERSION := 2.9.1
NODE_DIR := .cache/node
NODE_STAMP := $(NODE_DIR)/.kaitai-struct-compiler-$(KSC_VERSION)-yaml-$(YAML_VERSION)

SOAK_EXECUTIONS ?= 1000000
SOAK_INPUTS ?= 1000000
SOAK_MESSAGES ?= 200000
SOAK_SIZE ?= 200MB
SOAK_CUTS ?= 200
SOAK_LOSSY ?= 200
SOAK_KILLS ?= 50
SOAK_HUB_KILLS ?= 100
SOAK_ROUNDS ?= 100
SOAK_SEED ?= 1
SOAK_SILENT ?= 10000
SOAK_CONNECTS ?= 100000
SOAK_INTERRUPTS ?= 10
SOAK_LIVE_SECONDS ?= 1800
SOAK_LIVE_RATE ?= 20000
PYTEST_WORKERS ?= 2
PYTEST_ARGS ?=

# Tests start several hundred processes. Where the environment forbids bytecode, each of them
# compiles its modules anew: 0.5 s of the 1.9 s of a `wirelake read`.
export PYTHONDONTWRITEBYTECODE :=

# $(call apt-install,checks): `checks` is shell code that calls `want PACKAGE` for each package
# that is missing. Nothing is asked of apt, nor of sudo, when there is none.
define apt-install
packages=(); want() { packages+=("$$1"); }; \
has() { command -v "$$1" >/dev/null 2>&1; }; \
$(1) \
if [ "$${#packages[@]}" -gt 0 ]; then \
	echo "installing: $${packages[*]}"; \
	sudo=(); if [ "$$(id -u)" -ne 0 ]; then sudo=(sudo); fi; \
	"$${sudo[@]}" apt-get update -q; \
	case " $${packages[*]} " in *" postgresql "*) \
		"$${sudo[@]}" install -d $(dir $(POSTGRES_SETTING)); \
		echo 'create_main_cluster = false' | "$${sudo[@]}" tee $(POSTGRES_SETTING) >/dev/null;; \
	esac; \
	case " $${packages[*]} " in *" prometheus "*) \
		if [ -d /run/systemd/system ]; then "$${sudo[@]}" systemctl mask prometheus.service; fi;; \
	esac; \
	"$${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
		apt-get install -y -q --no-install-recommends "$${packages[@]}"; \
fi
endef

# `python3 -m venv` needs ensurepip, which Debian and Ubuntu package apart.
PYTHON_CHECKS = has python3 || want python3; \
	"$(or $(PYTHON),python3)" -c 'import ensurepip, venv' 2>/dev/null || want "$(notdir $(or $(PYTHON),python3))-venv";
NODE_CHECKS = has node || want nodejs; has npm || want npm; \
	[ -e /etc/ssl/certs/ca-certificates.crt ] || want ca-certificates;
TSHARK_CHECKS = has tshark || want tshark; has tcpdump || want tcpdump; has zstd || want zstd;
# The C that kernels are compared with.
GCC_CHECKS = has gcc || { want gcc; want libc6-dev; };
# The servers that the hub is measured beside, and what the load generator is built with.
PEER_CHECKS = daemon() { has "$$1" || [ -x "/usr/sbin/$$1" ] || want "$$1"; }; \
	daemon nats-server; daemon redis-server; daemon mosquitto; \
	[ -e /usr/include/openssl/ssl.h ] || want libssl-dev;
# The server that the store in PostgreSQL is tested with. Its tests start servers of their own; the
# setting keeps the package from creating one for the machine.
POSTGRES_CHECKS = has initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || want postgresql;
POSTGRES_SETTING := /etc/postgresql-common/createcluster.d/wirelake.conf
# promtool, which alert rules are tested with. Its package has the server, too, which would start
# with systemd: it is masked.
PROMETHEUS_CHECKS = has promtool || want prometheus;
# The shells that tab completion is tested in.
SHELL_CHECKS = has zsh || want zsh; has fish || want fish;
# The browser that pages are looked at with, what units are checked with, and networks for pages.
LOOK_CHECKS = has chromium || want chromium; has systemd-analyze || want systemd; has ip || want iproute2; has curl || want curl;

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS=$$'\t' read -r name what; do printf '  make %-10s %s\n' "$$name" "$$what"; done

.PHONY: system
system: ## install the Debian packages that the tests need and that are missing
	@$(call apt-install,$(PYTHON_CHECKS) $(NODE_CHECKS) $(TSHARK_CHECKS) $(GCC_CHECKS) $(PEER_CHECKS) $(LOOK_CHECKS) $(POSTGRES_CHECKS) $(PROMETHEUS_CHECKS) $(SHELL_CHECKS))

.PHONY: system-python system-node
system-python:
	@$(call apt-install,$(PYTHON_CHECKS))
system-node:
	@$(call apt-install,$(NODE_CHECKS))

.PHONY: setup
setup: $(SETUP_STAMP) ## make .venv with Wirelake, its tools and the example packages

$(SETUP_STAMP): pyproject.toml $(EXAMPLES:%=%/pyproject.toml)
	@$(MAKE) --no-print-directory system-python
	@[ -n "$(PYTHON)" ] || { echo "Wirelake needs Python 3.11 or newer; name one with make PYTHON=..." >&2; exit 1; }
	[ -x $(BIN)/pip ] || "$(PYTHON)" -m venv $(VENV)
	@# Bytecode is made for what is imported: compiling all of it takes half of the time of pip.
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]' $(EXAMPLES:%=--editable %)
	@touch $@

.PHONY: node
node: $(NODE_STAMP) ## install the Kaitai Struct compiler, pinned, into .cache/node

$(NODE_STAMP):
	@$(MAKE) --no-print-directory system-node
	@mkdir -p $(NODE_DIR)
	npm install --prefix $(NODE_DIR) --no-fund --no-audit --loglevel=error \
		kaitai-struct-compiler@$(KSC_VERSION) yaml@$(YAML_VERSION)
	@touch $@

.PHONY: lint
lint: setup ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

.PHONY: docs
docs: setup ## build the pages into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

.PHONY: warm
warm: setup ## compile all kernels and archive the classes of Spark's JVM: tests then start quickly
	@WIRELAKE_CACHE=$(CURDIR)/.cache/wirelake SPARK_SUBMIT_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' \
		$(BIN)/python -m wirelake.lake.spark.warm --classes

.PHONY: test
test: system setup node ## everything that must hold: lint, docs, tests
	@# mypy and sphinx use one core, compiling kernels uses the other.
	@$(MAKE) --no-print-directory warm & warm=$$!; trap 'kill $$warm 2>/dev/null || true' EXIT; \
	$(MAKE) --no-print-directory lint docs; wait $$warm
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

.PHONY: check
check: setup ## the inner loop, in two minutes: lint, types, tests without Spark, browsers and pages
	@$(MAKE) --no-print-directory lint & lint=$$!; trap 'kill $$lint 2>/dev/null || true' EXIT; \
	WIRELAKE_PROFILE=check $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile -m 'not soak and not slow' \
		$(PYTEST_ARGS); \
	wait $$lint

.PHONY: soak
soak: setup ## full counts of fuzzing, comparisons and kills; writes soak/*.json
	@mkdir -p soak
	$(BIN)/python -m pytest -m soak -n $(PYTEST_WORKERS) --dist loadfile
	$(BIN)/python tests/fuzz/soak.py --executions $(SOAK_EXECUTIONS) --json soak/wire.json
	$(BIN)/python tests/fuzz/session_soak.py --inputs $(SOAK_INPUTS) --json soak/sessions.json
	$(BIN)/python tests/columnar/soak.py --messages $(SOAK_MESSAGES) --size $(SOAK_SIZE) --json soak/columnar.json
	$(BIN)/python -m tests.lake.lake_soak --cuts $(SOAK_CUTS) --lossy $(SOAK_LOSSY) --kills $(SOAK_KILLS) --json soak/lake.json
	$(BIN)/python -m tests.hub_kills.hub_soak --kills $(SOAK_HUB_KILLS) --silent $(SOAK_SILENT) --connects $(SOAK_CONNECTS) --json soak/hub.json
	$(MAKE) --no-print-directory soak-postgres
	$(BIN)/python -m tests.hub.cluster.checker.soak --rounds $(SOAK_ROUNDS) --seed $(SOAK_SEED) --json soak/cluster.json
	$(BIN)/python -m tests.demo.interrupts --times $(SOAK_INTERRUPTS) --json soak/demo.json
	$(BIN)/python -m tests.live.live_soak --seconds $(SOAK_LIVE_SECONDS) --rate $(SOAK_LIVE_RATE) --json soak/live.json
	$(BIN)/python -m tests.release.wheel_demo

.PHONY: soak-postgres
soak-postgres: setup ## the tests of the hub and its clients with the store in PostgreSQL
	$(BIN)/python -m pytest tests/hub tests/hub_raw tests/client --store postgres -rs -n $(PYTEST_WORKERS) --dist loadfile

.PHONY: bench
bench: system setup node ## codecs, sessions, kernels, captures and the lake beside their peers; JSON records
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.wire --json benchmarks/results/wire.json
	$(BIN)/python -m benchmarks.sessions --json benchmarks/results/sessions.json
	$(BIN)/python -m benchmarks.columnar --json benchmarks/results/columnar.json
	$(BIN)/python -m benchmarks.captures --json benchmarks/results/captures.json
	$(BIN)/python -m benchmarks.lake --json benchmarks/results/lake.json

.PHONY: bench-hub
bench-hub: system setup ## the hub beside nats-server, redis, mosquitto and amqtt; a JSON record
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks.hub --json benchmarks/results/hub.json

.PHONY: demo
demo: setup ## a hub, simulated clients, a lake and a report; every figure compared with the truth
	@$(BIN)/wirelake demo

.PHONY: pages
pages: setup ## write what is generated anew: references, performance, the dashboard
	$(BIN)/python -m tools.pages docs/reference
	$(BIN)/python -m benchmarks.performance_pages docs/guides
	$(BIN)/python -m tools.dashboard deploy/grafana/wirelake-hub.json

.PHONY: screenshots
screenshots: system setup ## the pictures of the READMEs: the demo, top and the report
	$(BIN)/python -m tools.screenshots

.PHONY: dist
dist: setup ## sdist and wheel, into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

.PHONY: clean
clean: ## remove build products and caches
	rm -rf docs/_build build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis soak/work
	find src tests examples benchmarks docs tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.PHONY: distclean
distclean: clean ## also remove .venv and .cache
	rm -rf $(VENV) .cache
