# One entry point for people: `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KAFKA ?= 4.2.0
# The newest Spark that Maven has a Kafka connector for, in an environment of its own.
CONNECTOR_SPARK := 4.2.0
CONNECTOR := $(CURDIR)/build/connector/$(CONNECTOR_SPARK)
# A minute of random schedules for the model after the crashes of `make soak`.
EXPLORE_SECONDS ?= 60
# The article's load, before that.
ARTICLE_SECONDS ?= 180
# And a log that is away for so long.
AWAY_SECONDS ?= 150
# And an hour of healthy micro-batches, of five minutes each, in so many seconds.
HEALTHY_SECONDS ?= 900
# Then, where `make kafka` has been run, the doctor beside a healthy cluster, and the guard killed at each step.
DOCTOR_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help setup check test test-kills soak test-kafka test-cluster test-connector kafka connector compat demo story bench bench-log bench-txn bench-upkeep bench-compact bench-kafka bench-records bench-commit bench-extents bench-spark bench-pipeline bench-source bench-lab bench-recon lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv from the hashed lock and install the package into it

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Holdfast needs Python 3.11 or newer; name one with: make PYTHON=python3.11 setup" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check --quiet --require-hashes --only-binary :all: --no-binary pyspark -r requirements.lock
	$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@echo "compiling the record kernels (once; the result is kept on disk)"
	$(BIN)/python -m holdfast.records.warm
	@touch $(STAMP)

check: setup ## ruff, mypy --strict and the import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup ## the tests: fixed seeds, real clients, real processes, no Maven
	$(BIN)/pytest -q -n 3 --dist loadfile -m "not kills"

test-kills: setup ## pipelines, sinks and upkeep whose Spark processes are killed: fixed seeds, no Maven
	$(BIN)/pytest -q -n 2 --dist worksteal -m kills

soak: setup ## kill the log at random under load (ROUNDS=300 or SECONDS=600; SEED=n again), then explore schedules
	$(BIN)/python -W ignore -m soak.crash $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))
	$(if $(SEED),,$(BIN)/python -W ignore -m soak.sink)
	$(if $(SEED),,$(BIN)/python -W ignore -m soak.article --seconds $(ARTICLE_SECONDS))
	$(if $(SEED),,$(BIN)/python -W ignore -m soak.away --seconds $(AWAY_SECONDS))
	$(if $(SEED),,$(BIN)/python -W ignore -m soak.drills)
	$(if $(SEED),,$(BIN)/python -W ignore -m soak.healthy --seconds $(HEALTHY_SECONDS))
	$(if $(SEED),,$(BIN)/python -m soak.explore --seconds $(EXPLORE_SECONDS))
	$(if $(SEED),,$(if $(wildcard build/kafka/$(KAFKA)),$(BIN)/python -W ignore -m soak.doctor --kafka $(KAFKA) --seconds $(DOCTOR_SECONDS)))
	$(if $(SEED),,$(if $(wildcard build/kafka/$(KAFKA)),$(BIN)/python -W ignore -m soak.guard --kafka $(KAFKA)))

test-kafka: setup kafka ## the client tests against Apache Kafka, and its raw answers against ours
	$(BIN)/pytest -q --kafka $(KAFKA) tests/kafka tests/agent/test_*clients.py

test-cluster: setup ## rounds, reads and the demo on a Spark master with two workers (needs a Java of the system)
	$(BIN)/pytest -q --timeout 300 --cluster tests/cluster

compat: setup ## kafka-python's own integration tests and kcat against Holdfast
	$(BIN)/python -W ignore -m compat.kafka_python
	$(BIN)/python -m compat.kcat

demo: setup ## produce with a Kafka client, read with a consumer and with Spark, end to end
	$(BIN)/python -m examples.demo

story: setup ## 400,000 messages in each delivery mode, with failures and kills, reconciled (STORY_MESSAGES=n for fewer)
	$(BIN)/python -W ignore -m bench.story

connector: setup ## fetch a PySpark for which Spark's own Kafka connector exists, and the connector, once
	@kafka/fetch-connector $(CONNECTOR_SPARK) $(BIN)/python

test-connector: setup connector ## pipelines that read through Spark's own Kafka connector
	PYTHONPATH=$(CONNECTOR)/python $(BIN)/pytest -q --timeout 300 --connector $(CONNECTOR)/jars tests/connector

kafka: ## fetch an Apache Kafka broker from Maven once (KAFKA=4.2.0)
	@kafka/fetch $(KAFKA)

bench: bench-log bench-txn bench-upkeep bench-compact bench-records bench-commit bench-extents bench-spark bench-pipeline bench-lab bench-recon ## every benchmark; figures go to build/bench/*.json

bench-log: setup ## produce, start and memory beside librdkafka's mock cluster
	$(BIN)/python -m bench.log

bench-txn: setup ## transactions beside dual publish, near and far, of 2 to 1000 messages
	$(BIN)/python -m bench.txn

bench-upkeep: setup ## what producers feel of a large compaction
	$(BIN)/python -m bench.upkeep

bench-compact: setup ## rounds of compaction beside the kernel alone and DuckDB, and what coordination costs
	$(BIN)/python -m bench.compact

bench-kafka: setup kafka ## the same clients against Apache Kafka, durable and as it comes
	KAFKA=$(KAFKA) $(BIN)/python -m bench.kafka_peer

bench-records: setup ## record kernels against aiokafka's Cython parser
	$(BIN)/python -m bench.records

bench-commit: setup ## one durable write per commit against two
	$(BIN)/python -m bench.commit

bench-extents: setup ## what requests cost in a log of a million extents against one of a thousand
	$(BIN)/python -m bench.extents

bench-spark: setup ## a topic into Spark against a plain consumer
	$(BIN)/python -m bench.spark_read

bench-pipeline: setup ## exactly once into topics from Spark against at least once
	$(BIN)/python -W ignore -m bench.pipeline

bench-source: setup connector ## a topic into Spark against Spark's own Kafka connector (needs Maven)
	PYTHONPATH=$(CONNECTOR)/python CONNECTOR_JARS=$(CONNECTOR)/jars $(BIN)/python -m bench.source

bench-lab: setup ## random schedules per second and core
	$(BIN)/python -m bench.lab

bench-recon: setup ## 25 million ids compared exactly, against joins in Spark SQL and DuckDB (RECON_IDS=n for fewer)
	$(BIN)/python -m bench.recon

lock: ## resolve requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --upgrade --quiet --output-file requirements.lock

clean: ## remove .venv and everything built
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
