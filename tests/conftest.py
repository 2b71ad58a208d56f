"""What all tests share: kafka-python imported quietly, and the choice of the broker that clients talk to."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer

if TYPE_CHECKING:
    from holdfast.lab.kafka_broker import KafkaCluster

assert kafka

KAFKA_PROPERTIES = {"group.min.session.timeout.ms": "1000"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`make test-kafka` names a version here."""
    parser.addoption(
        "--kafka", metavar="VERSION", help="run client tests against this Apache Kafka, and tests/kafka too"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/kafka needs a JVM: it is there for those who ask."""
    return True if collection_path.name == "kafka" and config.getoption("kafka") is None else None


@pytest.fixture(scope="session")
def kafka_cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["KafkaCluster"]:
    """One node of the Apache Kafka that `--kafka` names."""
    from holdfast.lab.kafka_broker import KafkaCluster, find_release

    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), jars=jars, properties=KAFKA_PROPERTIES) as cluster:
        yield cluster
