"""The runner of real brokers itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.client.cluster import Cluster
from holdfast.errors import KafkaUnavailable
from holdfast.lab.kafka_broker import KafkaCluster, find_release
from tests.agent.clients import Confluent, Found

RECORDS: Found = [(b"k", b"v", [], 1_700_000_000_000)]


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three small nodes."""
    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    with KafkaCluster(tmp_path_factory.mktemp("three"), jars=jars, nodes=3, heap_mb=256) as cluster:
        yield cluster


def test_three_nodes_survive_the_kill_of_one(cluster: KafkaCluster) -> None:
    """Two go on without it; started again, it comes back with its data, on its port."""
    client = Confluent(cluster.bootstrap)
    assert client.produce("kept", RECORDS) == [0]
    port = cluster.port(2)
    cluster.kill_node(2)
    assert client.produce("kept", RECORDS) == [1]
    cluster.launch(2)
    cluster.wait_ready()
    assert cluster.port(2) == port
    assert (cluster.data(2) / "kept-0").is_dir()
    with Cluster(cluster.bootstrap) as seen:
        assert set(seen.metadata([]).brokers) == {1, 2, 3}
    assert len(client.consume("kept", 2)) == 2


def test_missing_release_names_the_command(tmp_path: Path) -> None:
    """Whoever has not fetched it is told how."""
    with pytest.raises(KafkaUnavailable, match=r"make kafka KAFKA=1\.2\.3"):
        find_release("1.2.3", tmp_path)


def test_broker_that_does_not_start_shows_its_log(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """A bad property ends the broker; its own words say why."""
    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    cluster = KafkaCluster(tmp_path, jars=jars, properties={"log.segment.bytes": "none"})
    with pytest.raises(KafkaUnavailable, match=r"log\.segment\.bytes"):
        cluster.start()
