"""`holdfast txn` on Apache Kafka, and a transaction there that no coordinator knows."""

import time
from collections.abc import Iterator

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import LATEST, Isolation, list_offsets
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.client.transactions import TV1, TV2, Generation, produce, verdicts
from holdfast.errors import ProducerFenced, TransientRefusal
from holdfast.lab.kafka_broker import KafkaCluster, find_release
from holdfast.records.build import Record, build_batch
from tests.cli.commands import Command

UNGUARDED = {
    # A batch that was never announced is let in, as before KIP-890: that is how transactions come to hang.
    "transaction.partition.verification.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}


def stable(cluster: Cluster, topic: str) -> dict[int, int]:
    return list_offsets(cluster, topic, dict.fromkeys(range(2), LATEST), isolation=Isolation.READ_COMMITTED)


def wait_until_stable(cluster: Cluster, topic: str) -> None:
    """Until readers get to the end; Kafka writes markers after it has answered."""
    patience = cluster.patience()
    while stable(cluster, topic) != list_offsets(cluster, topic, dict.fromkeys(range(2), LATEST)):
        patience.wait(TransientRefusal("the markers are not there"))


@pytest.mark.parametrize("generation", [TV1, TV2], ids=["TV1", "TV2"])
def test_abort(kafka_cluster: KafkaCluster, generation: Generation) -> None:
    """An open transaction is seen, found too old, and aborted as a whole; its producer is fenced."""
    topic = f"txn-command-{generation.level}"
    command = Command(kafka_cluster.bootstrap)
    with Cluster(kafka_cluster.bootstrap) as cluster:
        create_topic(cluster, topic, partitions=2)
        producer = TransactionalProducer(cluster, topic, generation=generation)
        producer.init()
        producer.begin()
        for partition in range(2):
            producer.send(topic, partition, [Record(value=b"a"), Record(value=b"b")])
        (listed,) = command.ok("txn", "list", "--pattern", topic, "--longer-than", "0ms", "--json").json
        assert (listed["state"], listed["producer_id"]) == ("Ongoing", producer.identity.producer_id)
        found = command.ok("txn", "describe", topic, "--json").json
        assert found["partitions"] == [[topic, 0], [topic, 1]]
        assert (found["producer_epoch"], found["timeout_ms"]) == (producer.identity.producer_epoch, 60_000)
        answer = command.run("txn", "hanging", "--longer-than", "0ms", "--json")
        (hanging,) = [each for each in answer.json if each["transactional_id"] == topic]
        held = [{"topic": topic, "partition": number, "start": 0, "held": 2} for number in range(2)]
        assert (answer.code, hanging["partitions"]) == (1, held)
        assert stable(cluster, topic) == {0: 0, 1: 0}
        place = [f"{topic}:1", "--producer", str(producer.identity.producer_id)]
        shown = command.ok("txn", "abort", *place, "-y").text
        assert shown == f"the transaction of {topic} is aborted, in 2 partitions\n"
        wait_until_stable(cluster, topic)
        with pytest.raises(ProducerFenced):
            producer.commit()
        assert "no open transaction" in command.refused("txn", "abort", topic, "-y")
        (listed,) = command.ok("txn", "list", "--pattern", topic, "--json").json
        assert listed["age_ms"] is None


@pytest.fixture(scope="module")
def unguarded(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Kafka that lets transactions hang."""
    jars = find_release(pytestconfig.getoption("kafka"), pytestconfig.rootpath / "build" / "kafka")
    directory = tmp_path_factory.mktemp("unguarded")
    with (
        KafkaCluster(directory, jars=jars, properties=UNGUARDED) as brokers,
        Cluster(brokers.bootstrap) as cluster,
    ):
        yield cluster


@pytest.mark.parametrize("verb", ["txn abort", "doctor repair"])
def test_nobody_coordinates_it(unguarded: Cluster, verb: str) -> None:
    """A late batch of a transaction that has ended holds readers back for ever: it is found and ended, either way."""
    topic = verb.replace(" ", "-")
    create_topic(unguarded, topic, partitions=2)
    producer = TransactionalProducer(unguarded, topic, generation=TV1)
    producer.init()
    producer.begin()
    producer.send(topic, 0, [Record(value=b"kept")])
    producer.commit()
    wait_until_stable(unguarded, topic)
    late = build_batch(
        [Record(value=b"late", timestamp_ms=time.time_ns() // 1_000_000)],
        producer_id=producer.identity.producer_id,
        producer_epoch=producer.identity.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request = produce(topic, {TopicPartition(topic, 1): late})
    (verdict,) = verdicts(unguarded.any_broker().send(request, versions=TV1.produce))
    assert verdict.code == 0
    assert stable(unguarded, topic) == {0: 2, 1: 0}
    command = Command(unguarded.bootstrap)
    assert command.run("txn", "hanging").code == 0, "not yet, by the longest timeout there is"
    answer = command.run("txn", "hanging", "--longer-than", "0ms", "--json")
    (found,) = answer.json
    assert found == {
        "transactional_id": None,
        "producer_id": producer.identity.producer_id,
        "producer_epoch": producer.identity.producer_epoch,
        "age_ms": found["age_ms"],
        "timeout_ms": None,
        "partitions": [{"topic": topic, "partition": 1, "start": 0, "held": 1}],
    }
    producer_id = str(producer.identity.producer_id)
    if verb == "txn abort":
        shown = command.ok("txn", "abort", f"{topic}:1", "--producer", producer_id, "-y").text
        assert shown.endswith("is aborted, in 1 partition\n")
    else:
        finding = f"{topic}:1:producer={producer_id}"
        (report,) = command.ok("doctor", "repair", finding, "-y", "--json").json
        assert "which no coordinator tells of" in report["steps"][0]
    wait_until_stable(unguarded, topic)
    assert command.run("txn", "hanging", "--longer-than", "0ms").code == 0
