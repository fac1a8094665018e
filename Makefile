# Everything is made inside this folder: the environment in .venv, the jars in jars, the demo's state in .waybill.
# `make help` lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
# How much `make test-nightly` draws: times the cases of `make test`, and seeds of 122 histories each.
EFFORT ?= 4
SEEDS ?= 9
# How many running stages its campaign kills.
KILLS ?= 200
FIRST ?= $(shell date +%Y%m%d)00
# The servers of the whole stack, and those of tests beside them, each with its lock in stack.
STACK := kafka s3proxy postgres
SERVERS := $(STACK) rest schema_registry mariadb
# The examples of the stack, and what each needs beside the environment.
EXAMPLE ?= shop
NEEDED_BY_shop := setup-s3 $(STACK:%=jars/%/.ready)
NEEDED_BY_branches := jars/mariadb/.ready
# Other programs that read what we write, each with its lock in tests/consumers.
CONSUMERS := flink debezium canal
BIN := $(CURDIR)/$(VENV)/bin
PY := $(BIN)/python
UV := $(BIN)/uv
PYTEST := $(PY) -m pytest

# spark-submit finds its home through the first python3 on the PATH.
export PATH := $(BIN):$(PATH)
export PYSPARK_PYTHON := $(PY)
export PYSPARK_DRIVER_PYTHON := $(PY)
export SPARK_LOCAL_IP ?= 127.0.0.1
export GX_ANALYTICS_ENABLED := false
export AIRFLOW__CORE__LOAD_EXAMPLES := False
# A virtual environment or a Spark that happens to be active in the calling shell must not be mixed in.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONHOME PYTHONPATH SPARK_HOME SPARK_CONF_DIR

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: setup ## Run the example migrations in Airflow and stay up; ONCE=1 ends by itself
	@$(PY) -m waybill_airflow.demo $(if $(ONCE),--once)

.PHONY: stack
stack: setup $(NEEDED_BY_$(EXAMPLE)) ## Run the whole stack, or EXAMPLE=branches: the walk through, with a MariaDB
	@$(PY) -m stack --example $(EXAMPLE) $(if $(ONCE),--once)

.PHONY: setup
setup: $(VENV)/.ready jars/.ready jars/spark.jsa ## Make .venv from the locks and fetch the jars, once
	@scripts/preflight.sh java

.PHONY: servers
servers: $(VENV)/.ready $(SERVERS:%=jars/%/.ready) ## Fetch the servers that some tests start, once
	@scripts/preflight.sh java

.PHONY: consumers
consumers: servers $(CONSUMERS:%=jars/consumers/%/.ready) jars/consumers/duckdb/.ready ## Fetch the programs that read in tests what is published, once

.PHONY: browser
browser: ## Make sure of the Chromium that some tests drive
	@scripts/browser.sh install >/dev/null

.PHONY: setup-s3
setup-s3: setup jars/s3/.ready ## Fetch what a lake in object storage needs beside setup, once

.PHONY: packed
packed: dist/executors.tar.gz ## Pack Python and the packages of Spark's executors for a cluster

##@ Prove it

.PHONY: test
test: setup ## Run every test that needs no server: fast, Spark, Airflow, the demo
	@scripts/test.sh fast spark e2e airflow hostile

.PHONY: test-fast
test-fast: setup ## Run the tests that need neither Spark nor Airflow
	@scripts/test.sh fast

.PHONY: test-hostile
test-hostile: setup ## Run a minute of damaged messages through every envelope
	@scripts/test.sh hostile

.PHONY: test-spark
test-spark: setup ## Run the tests that need Spark
	@scripts/test.sh spark

.PHONY: test-kafka
test-kafka: setup servers ## Run the tests that need a Kafka broker
	@scripts/test.sh kafka

.PHONY: test-s3
test-s3: setup-s3 servers ## Run the tests that need an S3 server and PostgreSQL
	@scripts/test.sh s3

.PHONY: test-verify
test-verify: setup servers ## Run the tests that compare with a PostgreSQL, a MariaDB and, where there is one, a MySQL
	@scripts/test.sh verify

.PHONY: test-airflow
test-airflow: setup ## Run the tests of the DAGs and the plugin
	@scripts/test.sh airflow

.PHONY: test-demo
test-demo: setup ## Run the tests of the demo
	@scripts/test.sh e2e

.PHONY: test-browser
test-browser: setup browser ## Run the tests of the pages in a browser
	@scripts/test.sh browser

.PHONY: pictures
pictures: setup browser ## Take the pictures of the docs anew
	@$(PYTEST) -q -n 0 tests/browser/test_states.py -k pictures
	@for name in migrations migration batch; do cp .waybill/screenshots/docs-$$name.png docs/images/$$name.png; done

.PHONY: test-consumers
test-consumers: setup consumers ## Let Flink, Debezium and Canal read what is written in their envelopes, and DuckDB the lake
	@scripts/test.sh consumers

.PHONY: test-e2e
test-e2e: setup-s3 consumers browser ## Run what takes longer: killed runs, other readers, a browser, and real servers: Kafka, S3, PostgreSQL, the whole stack
	@scripts/test.sh servers killed stack browser

.PHONY: test-all
test-all: setup-s3 consumers browser ## Run both of them, in less time than one after the other
	@scripts/test.sh fast servers demo spark killed stack airflow hostile

.PHONY: test-nightly
test-nightly: setup-s3 consumers browser ## Run everything, and draw more cases, and others: histories, envelopes, hostile messages, the gate's states, kills
	@WAYBILL_EFFORT=$(EFFORT) WAYBILL_HISTORY_SEEDS=$(SEEDS) WAYBILL_HISTORY_FIRST=$(FIRST) \
		WAYBILL_KILLS=$(KILLS) WAYBILL_LANES=1 scripts/test.sh drawn histories campaign
	@WAYBILL_NIGHTLY=1 $(MAKE) test-all

# The types are checked while a clean clone is set up, and the set-up waits for nothing of it.
.PHONY: check
check: $(VENV)/.ready ## Lint, check the format and the types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@nice $(PY) -m mypy

.PHONY: bench
bench: setup $(STACK:%=jars/%/.ready) ## Measure speed and memory beside the alternatives
	@$(PY) -m bench

##@ Upkeep

.PHONY: format
format: $(VENV)/.ready ## Format the code and fix what ruff can fix
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

.PHONY: docs
docs: $(VENV)/.ready ## Write the tables of the docs that come from the code
	@$(PY) -m tests.contract.matrix

.PHONY: lock
lock: $(VENV)/bin/uv ## Resolve the dependencies again: of packages and of jars
	$(UV) pip compile $(COMPILE) $(UPGRADE) pyproject.toml -o requirements.txt
	$(UV) pip compile $(COMPILE) $(UPGRADE) --group dev --group bench -c requirements.txt -o requirements-dev.txt
	$(UV) pip compile $(COMPILE) $(UPGRADE) --group executors -c requirements.txt -o requirements-executors.txt
	$(UV) pip compile $(COMPILE) tests/consumers/duckdb.in -o tests/consumers/duckdb.txt
	@$(MAKE) --no-print-directory $(VENV)/.ready
	$(PY) scripts/jars.py lock
	$(PY) scripts/jars.py lock jars-s3.lock jars/s3
	@for server in $(SERVERS); do $(PY) scripts/jars.py lock stack/$$server.lock jars/$$server || exit 1; done
	@for name in $(CONSUMERS); do \
		$(PY) scripts/jars.py lock tests/consumers/$$name.lock jars/consumers/$$name || exit 1; done

.PHONY: clean
clean: ## Remove everything that make made
	rm -rf $(VENV) jars .waybill build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# `make lock UPGRADE=1` takes the newest allowed versions; without it only what pyproject.toml changed moves.
override UPGRADE := $(if $(UPGRADE),--upgrade)
COMPILE := --quiet --universal --python-version 3.11 --generate-hashes --no-header

# pip installs uv alone, at the version and hashes of the lock; uv installs the rest in a quarter of pip's time.
$(VENV)/bin/uv:
	@scripts/preflight.sh java
	@python=$$(scripts/preflight.sh python) && rm -rf $(VENV) && "$$python" -m venv $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.txt > $(VENV)/uv.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/uv.txt

$(VENV)/.synced: requirements.txt requirements-dev.txt | $(VENV)/bin/uv
	@echo "waybill: installing $(VENV) from the lock files"
	@$(UV) pip sync --quiet --python $(PY) --require-hashes --compile-bytecode requirements.txt requirements-dev.txt
	@touch $@

$(VENV)/.ready: pyproject.toml $(VENV)/.synced
	@$(UV) pip install --quiet --python $(PY) --no-deps --no-build-isolation --offline -e .
	@touch $@

dist/executors.tar.gz: requirements-executors.txt scripts/packed.py $(VENV)/.synced | $(VENV)/.ready
	@$(PY) scripts/packed.py $@

jars/.ready: jars.lock scripts/jars.py | $(VENV)/.ready
	@scripts/preflight.sh java
	@$(PY) scripts/jars.py fetch
	@touch $@

# Fetched with less priority than what Spark's classes, which take longest to prepare, wait for.
jars/s3/.ready: jars-s3.lock scripts/jars.py | $(VENV)/.ready
	@nice $(PY) scripts/jars.py fetch jars-s3.lock jars/s3
	@touch $@

$(SERVERS:%=jars/%/.ready): jars/%/.ready: stack/%.lock scripts/jars.py | $(VENV)/.ready
	@scripts/preflight.sh java
	@nice $(PY) scripts/jars.py fetch $< $(@D)
	@touch $@

$(CONSUMERS:%=jars/consumers/%/.ready): jars/consumers/%/.ready: tests/consumers/%.lock scripts/jars.py | $(VENV)/.ready
	@scripts/preflight.sh java
	@nice $(PY) scripts/jars.py fetch $< $(@D)
	@touch $@

# Beside the packages of .venv: no newer DuckDB can be had with its reader of Iceberg, and the benchmarks take the newest.
jars/consumers/duckdb/.ready: tests/consumers/duckdb.txt | $(VENV)/bin/uv
	@nice $(UV) pip install --quiet --python $(PY) --require-hashes --no-deps --target $(@D) -r $<
	@touch $@

jars/spark.jsa: jars/.ready $(VENV)/.synced scripts/class_archive.py
	@echo "waybill: preparing Java's classes"
	@$(PY) scripts/class_archive.py $@
