"""Aborted transactions of Apache Kafka, which sends their batches along and leaves the reader to drop them."""

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.lab.kafka_broker import KafkaCluster
from holdfast.spark.rows import read_rows
from holdfast.spark.schema import select

TOPIC = "read-committed"
TRANSACTIONS = 12
RECORDS = 40


@pytest.fixture(scope="module")
def committed(kafka_cluster: KafkaCluster) -> set[bytes]:
    """Every third transaction aborts, with plain records of another producer in between; what must be seen."""
    bootstrap = kafka_cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": TOPIC, "compression.type": "lz4"}
    )
    plain = Producer({"bootstrap.servers": bootstrap})
    producer.init_transactions()
    seen = set[bytes]()
    for number in range(TRANSACTIONS):
        values = [b"%d-%d" % (number, index) for index in range(RECORDS)]
        producer.begin_transaction()
        for value in values:
            producer.produce(TOPIC, value=value)
        producer.flush()
        plain.produce(TOPIC, value=b"plain %d" % number)
        plain.flush()
        seen.add(b"plain %d" % number)
        if number % 3 == 0:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            seen.update(values)
    return seen


def read(cluster: Cluster, start: int, end: int, isolation: Isolation) -> dict[int, bytes]:
    wanted = OffsetRange(topic=TOPIC, partition=0, start=start, end=end)
    found: dict[int, bytes] = {}
    for batch in read_rows(cluster, wanted, select(["offset", "value"]), isolation=isolation):
        found.update(zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True))
    return found


def log_end(cluster: Cluster) -> int:
    return list_offsets(cluster, TOPIC, {0: LATEST}, isolation=Isolation.READ_COMMITTED)[0]


def test_exactly_what_was_committed(kafka_cluster: KafkaCluster, committed: set[bytes]) -> None:
    """Committed and plain records are there, aborted ones are not; read_uncommitted sees them all."""
    with Cluster(kafka_cluster.bootstrap) as cluster:
        end = log_end(cluster)
        found = read(cluster, 0, end, Isolation.READ_COMMITTED)
        assert set(found.values()) == committed
        assert len(found) == len(committed)
        assert len(read(cluster, 0, end, Isolation.READ_UNCOMMITTED)) == TRANSACTIONS * (RECORDS + 1)


def test_ranges_that_cut_transactions(kafka_cluster: KafkaCluster, committed: set[bytes]) -> None:
    """A range that begins in the middle of an aborted transaction hides the rest of it all the same."""
    with Cluster(kafka_cluster.bootstrap) as cluster:
        end = log_end(cluster)
        whole = read(cluster, 0, end, Isolation.READ_COMMITTED)
        for start in range(0, end, 29):
            stop = min(end, start + 67)
            expected = {offset: value for offset, value in whole.items() if start <= offset < stop}
            assert read(cluster, start, stop, Isolation.READ_COMMITTED) == expected


def test_small_fetches(kafka_cluster: KafkaCluster, committed: set[bytes]) -> None:
    """One batch to an answer: every offset is passed, and each answer carries the aborted list it needs."""
    with Cluster(kafka_cluster.bootstrap) as cluster:
        wanted = OffsetRange(topic=TOPIC, partition=0, start=0, end=log_end(cluster))
        chunks = list(read_range(cluster, wanted, isolation=Isolation.READ_COMMITTED, fetch_bytes=1))
        assert chunks[-1].next_offset == wanted.end
        assert len(chunks) > TRANSACTIONS
