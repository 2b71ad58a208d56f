"""Both brokers, once for all tests of this folder."""

from collections.abc import Iterator

import pytest

from holdfast.lab.kafka_broker import KafkaCluster, find_release
from tests.kafka.peers import Peers
from tests.kafka.secured import Secured, secured_brokers
from tests.process import HoldfastProcess
from tests.spark.session import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def peers(kafka_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Holdfast and Apache Kafka, both fresh."""
    with HoldfastProcess(tmp_path_factory.mktemp("holdfast") / "data") as ours:
        yield Peers(holdfast=ours.port, kafka=kafka_cluster.port(1))


@pytest.fixture(params=["kafka", "holdfast"])
def transactional(request: pytest.FixtureRequest, peers: Peers) -> str:
    """The address of each broker that serves transactions, in turn."""
    peer = peers.kafka if request.param == "kafka" else peers.holdfast
    return f"127.0.0.1:{peer.port}"


@pytest.fixture(scope="session")
def secured(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Brokers behind SASL_SSL, for all tests of them."""
    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    with secured_brokers(tmp_path_factory.mktemp("secured"), jars) as brokers:
        yield brokers
