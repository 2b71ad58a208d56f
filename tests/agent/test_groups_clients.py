"""Groups of real clients: members come and go, every record has one reader, positions outlive a crash.

`make test-kafka` runs the same tests against Apache Kafka.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from tests.agent.clients import create_topic
from tests.agent.groups.members import (
    AiokafkaMember,
    ConfluentMember,
    KafkaPythonMember,
    Ledger,
    Member,
    poll_until,
)
from tests.agent.raw import ListGroupsRequest, RawClient
from tests.process import Broker, HoldfastProcess

PARTITIONS = 6
SECONDS_MAX = 20.0

MakeMember = Callable[[str, str, str, Ledger], Member]
MEMBERS: dict[str, MakeMember] = {
    "confluent-range": ConfluentMember,
    "confluent-cooperative": partial(ConfluentMember, assignor="cooperative-sticky"),
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """For the test's own topic and group."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


@pytest.fixture
def admin(broker: Broker) -> Any:
    """confluent-kafka's admin client."""
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


def create(bootstrap: str, topic: str) -> None:
    """A topic of six partitions."""
    create_topic(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), topic, PARTITIONS)


def produce(bootstrap: str, topic: str, first: int, last: int) -> None:
    """Numbered records, spread over all partitions."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(first, last + 1):
        producer.produce(topic, value=str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(SECONDS_MAX) == 0


def numbers(first: int, last: int) -> Counter[bytes]:
    """Each record once."""
    return Counter(str(number).encode() for number in range(first, last + 1))


def own_evenly(ledger: Ledger, *members: Member) -> bool:
    """Whether the partitions are shared among exactly these members."""
    return Counter(ledger.owners.values()) == Counter(
        {member: PARTITIONS // len(members) for member in members}
    )


@pytest.mark.parametrize("make", MEMBERS.values(), ids=MEMBERS.keys())
def test_members_come_and_go(broker: Broker, name: str, make: MakeMember) -> None:
    """Each record is read once, by the one member that owns its partition, through three rebalances."""
    create(broker.bootstrap, name)
    produce(broker.bootstrap, name, 0, 59)
    ledger = Ledger()

    def join() -> Member:
        return make(broker.bootstrap, name, name, ledger)

    first = join()
    poll_until([first], ledger, lambda: ledger.read == numbers(0, 59), "the first member reads everything")
    second, third = join(), join()
    everybody = [first, second, third]
    poll_until(everybody, ledger, lambda: own_evenly(ledger, *everybody), "three members share")
    produce(broker.bootstrap, name, 60, 119)
    poll_until(everybody, ledger, lambda: ledger.read == numbers(0, 119), "three members read")
    first.close()
    poll_until([second, third], ledger, lambda: own_evenly(ledger, second, third), "two members take over")
    produce(broker.bootstrap, name, 120, 179)
    poll_until([second, third], ledger, lambda: ledger.read == numbers(0, 179), "two members read")
    second.close()
    third.close()
    with closing(make(broker.bootstrap, name, name, ledger)) as late:
        produce(broker.bootstrap, name, 180, 185)
        poll_until([late], ledger, lambda: ledger.read == numbers(0, 185), "a late member goes on from there")


def test_a_static_member_returns_to_its_partitions(broker: Broker, name: str) -> None:
    """The others do not even notice that it was away."""
    create(broker.bootstrap, name)
    ledger, returned = Ledger(), Ledger()
    make = partial(ConfluentMember, broker.bootstrap, name, name)
    one, two = make(ledger, instance="one"), make(ledger, instance="two")
    poll_until([one, two], ledger, lambda: own_evenly(ledger, one, two), "both share")
    kept = {partition for partition, owner in ledger.owners.items() if owner is two}
    assignments = ledger.assignments
    two.close()
    produce(broker.bootstrap, name, 0, 59)
    two = make(returned, instance="two")
    poll_until([one, two], ledger, lambda: set(returned.owners) == kept, "it gets what it had")
    poll_until([one, two], ledger, lambda: ledger.read + returned.read == numbers(0, 59), "both read")
    assert ledger.assignments == assignments, "the other one was not disturbed"
    one.close()
    two.close()


def test_an_instance_id_belongs_to_one_process(broker: Broker, name: str) -> None:
    """The older one is fenced for good."""
    create(broker.bootstrap, name)
    ledger = Ledger()
    make = partial(ConfluentMember, broker.bootstrap, name, name, instance="only")
    with closing(make(ledger)) as older:
        poll_until([older], ledger, lambda: len(ledger.owners) == PARTITIONS, "it owns all")
        newer_ledger = Ledger()
        with closing(make(newer_ledger)) as newer:
            poll_until(
                [newer],
                newer_ledger,
                lambda: len(newer_ledger.owners) == PARTITIONS,
                "the newer one takes over",
            )
            message = older.consumer.poll(SECONDS_MAX)
            assert message.error().code() == KafkaError._FATAL
            assert "fenced" in message.error().str()


def test_committed_positions_and_members_outlive_a_kill(tmp_path: Path, name: str) -> None:
    """kill -9: the same members go on in the same generation, nothing is read twice, nothing is lost."""
    with HoldfastProcess(tmp_path / "data") as process:
        create(process.bootstrap, name)
        produce(process.bootstrap, name, 0, 59)
        ledger = Ledger()
        members = [ConfluentMember(process.bootstrap, name, name, ledger) for _ in range(2)]
        poll_until(members, ledger, lambda: own_evenly(ledger, *members), "both share")
        poll_until(members, ledger, lambda: ledger.read == numbers(0, 59), "both read")
        before, assignments = _members(process.bootstrap, name), ledger.assignments
        process.kill()
        process.start()
        assert _members(process.bootstrap, name) == before, "a killed process forgets no member"
        produce(process.bootstrap, name, 60, 119)
        poll_until(members, ledger, lambda: ledger.read == numbers(0, 119), "both go on")
        assert ledger.assignments == assignments, "there was no rebalance"
        assert _positions(process.bootstrap, name) == [20] * PARTITIONS
        for member in members:
            member.close()
        assert _members(process.bootstrap, name) == {}
        process.kill()
        process.start()
        assert _members(process.bootstrap, name) == {}, "members that left stay away"
        assert _positions(process.bootstrap, name) == [20] * PARTITIONS
        assert "Traceback" not in process.log


def test_groups_are_spread_over_nodes_and_listed_once(tmp_path: Path, name: str) -> None:
    """A tool asks every node for its groups; each group has one coordinator, the same for all who ask."""
    with HoldfastProcess(tmp_path / "data", "--nodes", "3") as process:
        create(process.bootstrap, name)
        groups = [f"group-{number}" for number in range(9)]
        client = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0})
        for group in groups:
            place = confluent_kafka.TopicPartition(name, 0, 7)
            moved = client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [place])])
            assert moved[group].result(SECONDS_MAX).topic_partitions[0].error is None
        listed: list[str] = []
        for broker in client.list_topics(timeout=SECONDS_MAX).brokers.values():
            with RawClient(broker.port) as node:
                listed += (group.group_id for group in node.call(ListGroupsRequest(version=4)).groups)
        assert sorted(listed) == groups
        described = client.describe_consumer_groups(groups)
        nodes = {future.result(SECONDS_MAX).coordinator.id for future in described.values()}
        assert nodes == {1, 2, 3}


def _members(bootstrap: str, group: str) -> dict[str, list[int]]:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    description = client.describe_consumer_groups([group])[group].result(SECONDS_MAX)
    return {
        member.member_id: sorted(place.partition for place in member.assignment.topic_partitions)
        for member in description.members
    }


def _positions(bootstrap: str, topic: str) -> list[int]:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    listing = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic]
    places = listing.result(SECONDS_MAX).topic_partitions
    return [place.offset for place in sorted(places, key=lambda place: place.partition)]


@pytest.fixture
def reader(broker: Broker, name: str) -> Iterator[ConfluentMember]:
    """The only member of a group that has read six records."""
    create(broker.bootstrap, name)
    produce(broker.bootstrap, name, 0, 5)
    ledger = Ledger()
    member = ConfluentMember(broker.bootstrap, name, name, ledger)
    poll_until([member], ledger, lambda: ledger.read == numbers(0, 5), "it reads")
    yield member
    member.close()


def test_groups_are_listed_and_described(admin: Any, name: str, reader: ConfluentMember) -> None:
    """By state, with members and what they were assigned."""
    listing = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(SECONDS_MAX)
    assert name in {group.group_id for group in listing.valid}
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(SECONDS_MAX)
    assert name not in {group.group_id for group in empty.valid}
    description = admin.describe_consumer_groups([name])[name].result(SECONDS_MAX)
    assert (description.state, description.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    (member,) = description.members
    assert (member.member_id, member.host) == (reader.consumer.memberid(), "/127.0.0.1")
    assert len(member.assignment.topic_partitions) == PARTITIONS


def test_a_group_with_members_is_protected(
    admin: Any, broker: Broker, name: str, reader: ConfluentMember
) -> None:
    """It cannot be deleted, nor can anybody else move its positions or forget them."""
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([name])[name].result(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    place = confluent_kafka.TopicPartition(name, 0, 0)
    moved = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [place])])[name]
    assert moved.result(SECONDS_MAX).topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as client:
        place = kafka.TopicPartition(name, 0)
        forgotten = client.delete_group_offsets(name, [place])
        assert forgotten[place] is kafka_errors.GroupSubscribedToTopicError
    reader.poll()


def test_a_group_without_members_can_be_moved_and_deleted(broker: Broker, admin: Any, name: str) -> None:
    """Its positions are set, forgotten one by one, and go with it."""
    create(broker.bootstrap, name)
    places = [confluent_kafka.TopicPartition(name, partition, 7) for partition in range(2)]
    set_to = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, places)])[name]
    assert [place.error for place in set_to.result(SECONDS_MAX).topic_partitions] == [None, None]
    assert _positions(broker.bootstrap, name) == [7, 7]
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as client:
        place = kafka.TopicPartition(name, 0)
        assert client.delete_group_offsets(name, [place])[place] is kafka_errors.NoError
    assert _positions(broker.bootstrap, name) == [7]
    admin.delete_consumer_groups([name])[name].result(SECONDS_MAX)
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([name])[name].result(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
    assert _positions(broker.bootstrap, name) == []
