"""Our transactional producer in both generations of the protocol, against Holdfast or Apache Kafka."""

from collections.abc import Iterator

import pytest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.offsets import Isolation
from holdfast.client.topics import create_topic
from holdfast.client.transactional_producer import State, TransactionalProducer
from holdfast.client.transactions import TV1, TV2, Generation, GroupMember, end_txn, generation_of, verdicts
from holdfast.errors import (
    ConnectionFailed,
    IllegalGeneration,
    InvalidTxnState,
    MessageTooLarge,
    ProducerFenced,
    TransientRefusal,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from holdfast.records.build import Record
from tests.agent.lossy import END_TXN, LossyCluster, lose_the_next
from tests.agent.raw import ApiVersionsRequest, RawClient
from tests.agent.reading import values
from tests.process import Broker

PARTITIONS = 2
GENERATIONS = {"TV1": TV1, "TV2": TV2}
TRANSACTIONS = 3
ANSWERED_IN = {
    "Produce": (0, TRANSACTIONS + 1),
    "InitProducerId": (22, 1),
    "AddPartitionsToTxn": (24, TRANSACTIONS),
    "AddOffsetsToTxn": (25, TRANSACTIONS),
    "EndTxn": (END_TXN, TRANSACTIONS),
    "TxnOffsetCommit": (28, TRANSACTIONS),
}
"""By request: its API key, and how many of its answers the test of lost ones loses."""


@pytest.fixture
def transactional(broker: Broker) -> str:
    """The address of a broker that serves transactions."""
    return broker.bootstrap


def offered_by(bootstrap: str) -> dict[int, int]:
    """The newest version of each API, by key."""
    with RawClient(int(bootstrap.rpartition(":")[2])) as client:
        answer = client.call(ApiVersionsRequest(version=0))
    return {api.api_key: api.max_version for api in answer.api_keys}


@pytest.fixture
def cluster(transactional: str) -> Iterator[Cluster]:
    """A client of the broker under test."""
    with Cluster(transactional) as cluster:
        yield cluster


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest, cluster: Cluster) -> Generation:
    """Each that the broker has finalized, in turn."""
    wanted = GENERATIONS[request.param]
    if wanted.level > generation_of(cluster).level:
        pytest.skip("this broker has only the first generation")
    return wanted


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own; its name serves for ids and groups too."""
    name = "".join(letter if letter.isalnum() else "." for letter in request.node.name)
    create_topic(cluster, name, partitions=PARTITIONS)
    return name


def records(*values: str) -> list[Record]:
    return [Record(value=value.encode()) for value in values]


def started(cluster: Cluster, name: str, generation: Generation) -> TransactionalProducer:
    producer = TransactionalProducer(cluster, name, generation=generation)
    producer.init()
    return producer


def test_all_or_nothing(cluster: Cluster, topic: str, generation: Generation) -> None:
    """What commits is seen in every partition, what aborts in none; sequences go on over both."""
    producer = started(cluster, topic, generation)
    for number in range(5):
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send(topic, partition, records(f"{number}a", f"{number}b"))
            producer.send(topic, partition, records(f"{number}c"))
        if number % 2:
            producer.abort()
        else:
            producer.commit()
    expected = [f"{number}{letter}" for number in (0, 2, 4) for letter in "abc"]
    producer.begin()
    producer.send(topic, 0, records("open"))
    wait_for(cluster, topic, [expected, expected])
    assert values(cluster, topic, PARTITIONS, Isolation.READ_UNCOMMITTED)[0][-1] == "open"
    producer.abort()
    wait_for(cluster, topic, [expected, expected])


def wait_for(cluster: Cluster, topic: str, expected: list[list[str]]) -> None:
    """Kafka answers EndTxn before its markers are written: what is seen grows up to what is expected."""
    patience = cluster.patience()
    while (seen := values(cluster, topic, PARTITIONS)) != expected:
        for have, due in zip(seen, expected, strict=True):
            assert have == due[: len(have)]
        patience.wait(TransientRefusal(f"seen {seen}"))


def test_epochs(cluster: Cluster, topic: str, generation: Generation) -> None:
    """Each transaction has an epoch of its own in the second generation, in the first all share one."""
    producer = started(cluster, topic, generation)
    epochs = [producer.identity.producer_epoch]
    for _ in range(3):
        producer.begin()
        producer.send(topic, 0, records("x"))
        producer.commit()
        epochs.append(producer.identity.producer_epoch)
    assert epochs == ([0, 1, 2, 3] if generation is TV2 else [0, 0, 0, 0])


def test_empty_transactions(cluster: Cluster, topic: str, generation: Generation) -> None:
    """A transaction without records and offsets ends well and leaves no trace."""
    producer = started(cluster, topic, generation)
    before = producer.identity
    for end in (producer.commit, producer.abort):
        producer.begin()
        end()
    assert producer.identity == before


def test_offsets(cluster: Cluster, topic: str, generation: Generation) -> None:
    """Staged offsets are the group's when the transaction commits, and not when it aborts."""
    producer = started(cluster, topic, generation)
    place = TopicPartition(topic, 1)
    for offset, end in ((3, producer.commit), (5, producer.abort)):
        producer.begin()
        producer.send_offsets(topic, {place: offset})
        assert fetch_group_offsets(cluster, topic).get(place) == (None if offset == 3 else 3)
        end()
        patience = cluster.patience()
        while fetch_group_offsets(cluster, topic).get(place) != 3:
            patience.wait(TransientRefusal("offset 3 is not there"))


def test_offsets_of_a_member_that_was(cluster: Cluster, topic: str, generation: Generation) -> None:
    """A generation that the group does not have is refused; after the abort the producer goes on."""
    producer = started(cluster, topic, generation)
    producer.begin()
    producer.send(topic, 0, records("lost"))
    with pytest.raises((IllegalGeneration, UnknownMemberId)):  # by Kafka 4, and by Kafka 3
        producer.send_offsets(topic, {TopicPartition(topic, 0): 1}, member=GroupMember(generation=7))
    assert producer.state is State.FAILED
    goes_on(cluster, topic, producer)


def test_failed_transaction(cluster: Cluster, topic: str, generation: Generation) -> None:
    """After a refused batch a transaction can only be aborted, and the next one is whole."""
    producer = started(cluster, topic, generation)
    producer.begin()
    producer.send(topic, 0, records("lost"))
    with pytest.raises(MessageTooLarge):
        producer.send(topic, 0, records("x" * 2_000_000))
    with pytest.raises(InvalidTxnState, match="can only be aborted"):
        producer.commit()
    goes_on(cluster, topic, producer)


def test_failed_before_it_began(transactional: str, topic: str, generation: Generation) -> None:
    """A transaction of which the coordinator never heard is aborted all the same."""
    with LossyCluster(transactional) as cluster:
        producer = started(cluster, topic, generation)
        producer.begin()
        cluster.is_patient = False
        with pytest.raises(UnknownTopicOrPartition):
            producer.send("nowhere", 0, records("lost"))
        cluster.is_patient = True
        goes_on(cluster, topic, producer)


def goes_on(cluster: Cluster, topic: str, producer: TransactionalProducer) -> None:
    producer.abort()
    producer.begin()
    producer.send(topic, 0, records("kept"))
    producer.commit()
    wait_for(cluster, topic, [["kept"], []])


def test_fencing(cluster: Cluster, topic: str, generation: Generation) -> None:
    """Whoever takes the id over aborts what was open, and the former owner can do nothing any more."""
    former = started(cluster, topic, generation)
    former.begin()
    former.send(topic, 0, records("lost"))
    later = started(cluster, topic, generation)
    with pytest.raises(ProducerFenced):
        former.commit()
    assert former.state is State.FENCED
    for forbidden in (former.begin, former.commit, former.abort, former.init):
        with pytest.raises(InvalidTxnState, match="fenced"):
            forbidden()
    later.begin()
    later.send(topic, 0, records("kept"))
    later.commit()
    wait_for(cluster, topic, [["kept"], []])


@pytest.mark.parametrize("request_name", ANSWERED_IN)
def test_lost_answers(transactional: str, topic: str, generation: Generation, request_name: str) -> None:
    """Every request is sent again when its answer is lost, and counts once."""
    api_key, times = ANSWERED_IN[request_name]
    if generation is TV2 and request_name.startswith("Add"):
        times = 0
    with LossyCluster(transactional) as cluster:
        producer = TransactionalProducer(cluster, topic, generation=generation)
        cluster.lose.add(api_key)
        producer.init()
        for number in range(TRANSACTIONS):
            producer.begin()
            producer.send(topic, 0, records(f"{number}a"))
            cluster.lose.add(api_key)
            producer.send(topic, 0, records(f"{number}b"))
            producer.send_offsets(topic, {TopicPartition(topic, 0): number})
            producer.commit()
        assert cluster.lost.count(api_key) == times
        wait_for(cluster, topic, [["0a", "0b", "1a", "1b", "2a", "2b"], []])


def test_batch_in_doubt(transactional: str, topic: str, generation: Generation) -> None:
    """A batch that may or may not be written dies with its transaction, and takes no later one for its own."""
    with LossyCluster(transactional) as cluster:
        producer = started(cluster, topic, generation)
        producer.begin()
        producer.send(topic, 0, records("lost"))
        cluster.lose.add(ANSWERED_IN["Produce"][0])
        cluster.is_patient = False
        with pytest.raises(ConnectionFailed):
            producer.send(topic, 0, records("written all the same"))
        cluster.is_patient = True
        goes_on(cluster, topic, producer)


def test_commit_in_doubt(transactional: str, topic: str, generation: Generation) -> None:
    """A commit that may have happened cannot be aborted any more; it is committed again."""
    with LossyCluster(transactional) as cluster:
        producer = started(cluster, topic, generation)
        producer.begin()
        producer.send(topic, 0, records("kept"))
        lose_the_next(END_TXN, cluster)
        with pytest.raises(ConnectionFailed):
            producer.commit()
        cluster.is_patient = True
        with pytest.raises(InvalidTxnState, match="answer never came"):
            producer.abort()
        producer.commit()
        producer.begin()
        producer.send(topic, 1, records("next"))
        producer.commit()
        wait_for(cluster, topic, [["kept"], ["next"]])


@pytest.mark.parametrize("generation", ["TV2"], indirect=True)
def test_late_commit(cluster: Cluster, topic: str, generation: Generation) -> None:
    """The second generation is immune to a commit's packet that comes late, in the next transaction."""
    producer = started(cluster, topic, generation)
    producer.begin()
    producer.send(topic, 0, records("kept"))
    late = end_txn(producer.identity, committed=True)
    producer.commit()
    producer.begin()
    producer.send(topic, 0, records("lost"))
    answer = cluster.any_broker().send(late, versions=generation.end_txn)
    assert [found.code for found in verdicts(answer)] == [ProducerFenced.kafka_code]
    producer.abort()
    wait_for(cluster, topic, [["kept"], []])


def test_chosen_generation(transactional: str, cluster: Cluster, topic: str) -> None:
    """Without being told, the producer speaks the newest generation that the broker serves."""
    expected = TV2 if offered_by(transactional)[END_TXN] >= TV2.end_txn[0] else TV1
    assert TransactionalProducer(cluster, topic).generation is expected
