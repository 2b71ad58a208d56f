"""What data partitions and groups are asked about transactions; see transaction_questions for the coordinator's."""

from typing import Any

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.consumer import JoinGroupRequest, OffsetFetchRequest, SyncGroupRequest
from kafka.protocol.producer import (
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import (
    NO_MEMBER,
    GroupMember,
    Identity,
    add_offsets,
    add_partitions,
    end_txn,
    init_producer_id,
    txn_offset_commit,
)
from holdfast.records.build import Record, build_batch
from tests.agent import requests
from tests.kafka.talk import Talk, describe
from tests.kafka.transaction_questions import aged, question, strangers

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
PLAIN = build_batch([Record(value=b"plain")])


def ends(talk: Talk, label: str) -> None:
    """Notes how much of the partition is undecided: outcomes take offsets in Kafka's log, and none in ours."""
    found = []
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        request = requests.list_offsets(talk.topic, {0: -1})
        request.isolation_level = isolation
        found.append(talk.do(request, 7).topics[0].partitions[0].offset)
    talk.note(f"records {label}", f"{found[1] - found[0]} undecided")


def active_producers(*places: TopicPartition) -> Any:
    return DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=place.topic, partition_indexes=[place.partition])
            for place in places
        ]
    )


@question(ProduceRequest, first=3)
def produce_unannounced(talk: Talk) -> None:
    """From version 12 on the batch announces its partition itself."""
    talk.start()
    talk.tell("not added", talk.produce(talk.batch()))
    talk.tell("state", describe(talk.name), 0)
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_announced(talk: Talk) -> None:
    talk.start()
    talk.open()
    talk.tell("first", talk.produce(talk.batch()))
    talk.tell("repeated", talk.produce(talk.batch()))
    talk.tell("next", talk.produce(talk.batch(sequence=1)))
    talk.tell("gap", talk.produce(talk.batch(sequence=5)))
    ends(talk, "while open")
    talk.tell("not transactional while open", talk.produce(talk.batch(sequence=2, transactional=False)))
    talk.tell(
        "the same without the id",
        talk.produce(talk.batch(sequence=2, transactional=False), transactional_id=None),
    )
    talk.end(committed=True)
    ends(talk, "after commit")
    talk.tell("repeated after commit", talk.produce(talk.batch(sequence=1)))
    talk.tell("next after commit, not added", talk.produce(talk.batch(sequence=2)))
    talk.tell("state", describe(talk.name), 0)


@question(ProduceRequest, first=3)
def produce_after_bump(talk: Talk) -> None:
    """After an end of the second generation the next transaction begins at sequence 0 of a new epoch."""
    talk.start()
    talk.open(data=True)
    before = talk.who
    talk.end(committed=True, version=5)
    talk.tell("old epoch", talk.produce(talk.batch(sequence=1, who=before)))
    talk.tell("repeat of old epoch", talk.produce(talk.batch(who=before)))
    talk.do(add_partitions(talk.who, [talk.place]), 3)
    talk.tell("new epoch, sequence goes on", talk.produce(talk.batch(sequence=1)))
    talk.tell("new epoch, sequence 0", talk.produce(talk.batch()))


@question(ProduceRequest, first=3)
def produce_first_sequence(talk: Talk) -> None:
    talk.start()
    talk.open()
    talk.tell("first batch with sequence 5", talk.produce(talk.batch(sequence=5)))


@question(ProduceRequest, first=3)
def produce_strangers(talk: Talk) -> None:
    aged(talk)
    talk.open(data=True)
    for label, who in strangers(talk).items():
        request = talk.produce(talk.batch(sequence=1, who=who), transactional_id=who.transactional_id or "")
        if not who.transactional_id:
            request.transactional_id = ""
        talk.tell(label, request)
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_strangers_elsewhere(talk: Talk) -> None:
    """As before, to a partition that has seen nothing of the producer."""
    aged(talk)
    talk.open(data=True)
    for label, who in strangers(talk).items():
        request = talk.produce(talk.batch(who=who), transactional_id=who.transactional_id, partition=1)
        if not who.transactional_id:
            request.transactional_id = ""
        talk.tell(label, request)


@question(ProduceRequest, first=3)
def produce_id_and_bit(talk: Talk) -> None:
    """The request names a transactional id or not, the batch has the bit or not, or they contradict."""
    talk.start()
    talk.open()
    talk.tell("bit without id", talk.produce(talk.batch(), transactional_id=None))
    talk.tell("id, batch idempotent", talk.produce(talk.batch(transactional=False)))
    talk.tell("id, batch plain", talk.produce(PLAIN))
    plain = talk.do(init_producer_id(Identity(transactional_id=None), timeout_ms=1000), 4)  # type: ignore[arg-type]
    other = Identity(
        transactional_id=talk.name, producer_id=plain.producer_id, producer_epoch=plain.producer_epoch
    )
    talk.tell("bit and id, producer of another", talk.produce(talk.batch(who=other), partition=1))
    talk.tell(
        "bit without id, producer without id",
        talk.produce(talk.batch(who=other), transactional_id=None, partition=1),
    )
    ends(talk, "after")


@question(ProduceRequest, first=3)
def produce_odd(talk: Talk) -> None:
    talk.start()
    talk.open()
    for acks in (1, 2):
        request = talk.produce(talk.batch())
        request.acks = acks
        talk.tell(f"acks {acks}", request)
    talk.tell("unknown partition", talk.produce(talk.batch(), partition=9))
    both = talk.produce(talk.batch(sequence=0), partition=0)
    both.topic_data[0].partition_data += talk.produce(PLAIN, partition=1).topic_data[0].partition_data
    talk.tell("a transactional and a plain batch", both)
    two = talk.produce(talk.batch(sequence=1), partition=0)
    two.topic_data[0].partition_data += talk.produce(talk.batch(), partition=1).topic_data[0].partition_data
    talk.tell("an added and another partition", two)
    control = build_batch(
        [Record(key=bytes(4), value=bytes(6))],
        control=True,
        transactional=True,
        producer_id=talk.who.producer_id,
        producer_epoch=talk.who.producer_epoch,
        base_sequence=2,
    )
    talk.tell("control batch", talk.produce(control))
    ends(talk, "after")


@question(TxnOffsetCommitRequest)
def stage_strangers(talk: Talk) -> None:
    aged(talk)
    group = "g." + talk.name
    talk.do(add_offsets(talk.who, group), 3)
    for label, who in strangers(talk).items():
        talk.tell(label, txn_offset_commit(who, group, {talk.place: 5}))
    talk.tell("good", txn_offset_commit(talk.who, group, {talk.place: 5}))
    for label, who in strangers(talk).items():
        talk.tell(f"{label}, after a good one", txn_offset_commit(who, group, {talk.place: 5}))


@question(TxnOffsetCommitRequest)
def stage_unannounced(talk: Talk) -> None:
    talk.start()
    talk.tell("not added", txn_offset_commit(talk.who, "g." + talk.name, {talk.place: 5}))
    talk.tell("state", describe(talk.name), 0)


@question(TxnOffsetCommitRequest)
def stage_places(talk: Talk) -> None:
    talk.start()
    group = "g." + talk.name
    talk.do(add_offsets(talk.who, group), 3)
    talk.tell("empty group", txn_offset_commit(talk.who, "", {talk.place: 5}))
    talk.tell("another group", txn_offset_commit(talk.who, group + ".other", {talk.place: 5}))
    talk.tell("unknown topic", txn_offset_commit(talk.who, group, {TopicPartition("nowhere", 0): 5}))
    talk.tell("unknown partition", txn_offset_commit(talk.who, group, {TopicPartition(talk.topic, 9): 5}))
    talk.tell("negative offset", txn_offset_commit(talk.who, group, {talk.place: -5}))
    long = txn_offset_commit(talk.who, group, {talk.place: 5})
    long.topics[0].partitions[0].committed_metadata = "x" * 5000
    talk.tell("long metadata", long)
    talk.tell("no offsets", txn_offset_commit(talk.who, group, {}))


def join(talk: Talk, group: str) -> GroupMember:
    """The only member of the group's first generation."""

    def ask(member_id: str) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )

    member_id = talk.ask(ask(""), 5).member_id
    joined = talk.do(ask(member_id), 5)
    share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
    sync = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=member_id, assignments=[share]
    )
    talk.do(sync, 3)
    return GroupMember(member_id=member_id, generation=joined.generation_id)


@question(TxnOffsetCommitRequest, first=3)
def stage_members(talk: Talk) -> None:
    """A group with a member, one that never was, and one that only has offsets."""
    talk.start()
    group = "g." + talk.name
    member = join(talk, group)
    talk.do(add_offsets(talk.who, group), 3)
    claims = {
        "member and generation": member,
        "old generation": GroupMember(member_id=member.member_id, generation=member.generation - 1),
        "newer generation": GroupMember(member_id=member.member_id, generation=member.generation + 1),
        "unknown member": GroupMember(member_id="nobody", generation=member.generation),
        "member without generation": GroupMember(member_id=member.member_id),
        "generation without member": GroupMember(generation=member.generation),
        "unknown instance": GroupMember(
            member_id=member.member_id, generation=member.generation, instance_id="nobody"
        ),
        "neither": NO_MEMBER,
    }
    for label, claimed in claims.items():
        request = txn_offset_commit(talk.who, group, {talk.place: 5}, member=claimed)
        talk.tell(label, request)
    other = group + ".none"
    talk.do(add_offsets(talk.who, other), 3)
    for label in ("member and generation", "unknown member", "generation without member", "neither"):
        request = txn_offset_commit(talk.who, other, {talk.place: 5}, member=claims[label])
        talk.tell(f"unknown group, {label}", request)


def fetch_offset(talk: Talk, *, stable: bool, partition: int = 0, all_places: bool = False) -> Any:
    group = "g." + talk.name
    indexes = [partition]
    if talk.version >= 8:
        part = OffsetFetchRequest.OffsetFetchRequestGroup
        topic_part: Any = part.OffsetFetchRequestTopics
        named = {"topic_id": talk.topic_id} if talk.version >= 10 else {"name": talk.topic}
        topics = None if all_places else [topic_part(**named, partition_indexes=indexes)]
        wanted = part(group_id=group, member_id=None, member_epoch=-1, topics=topics)
        return OffsetFetchRequest(groups=[wanted], require_stable=stable)
    topic_part = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = None if all_places else [topic_part(name=talk.topic, partition_indexes=indexes)]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)


@question(OffsetFetchRequest, first=7)
def staged_offsets_fetched(talk: Talk) -> None:
    talk.start()
    group = "g." + talk.name

    def stage(offset: int) -> None:
        talk.do(add_offsets(talk.who, group), 3)
        talk.do(txn_offset_commit(talk.who, group, {talk.place: offset}), 3)

    def ask(label: str) -> None:
        talk.tell(f"{label}, stable", fetch_offset(talk, stable=True))
        talk.tell(f"{label}, any", fetch_offset(talk, stable=False))

    stage(3)
    ask("staged, none before")
    talk.tell("staged, another partition, stable", fetch_offset(talk, stable=True, partition=1))
    talk.tell("staged, all partitions, stable", fetch_offset(talk, stable=True, all_places=True))
    talk.tell("staged, all partitions, any", fetch_offset(talk, stable=False, all_places=True))
    talk.end(committed=True)
    settle_offsets(talk)
    ask("committed")
    stage(5)
    ask("staged, one before")
    talk.tell("staged, all partitions, stable, one before", fetch_offset(talk, stable=True, all_places=True))
    talk.tell("plain commit while staged", requests.commit_offset(group, talk.topic, 7), 8)
    ask("plain commit while staged")
    talk.end(committed=True)
    settle_offsets(talk)
    ask("plain commit, then committed")
    stage(2)
    talk.end(committed=False)
    settle_offsets(talk)
    ask("aborted")


def settle_offsets(talk: Talk) -> None:
    """Return when no offset of the group is staged any more."""
    talk.until(
        lambda: fetch_offset(talk, stable=True),
        talk.version,
        lambda answer: "88" not in talk.digest(answer),
    )


@question(DescribeProducersRequest)
def producers_described(talk: Talk) -> None:
    talk.start()
    mine = active_producers(talk.place)
    talk.tell("nothing", mine)
    talk.tell("unknown partition", active_producers(TopicPartition(talk.topic, 9)))
    talk.tell("unknown topic", active_producers(TopicPartition("nowhere", 0)))
    talk.open()
    talk.tell("added, no data", mine)
    talk.do(talk.produce(talk.batch(count=3)), 11)
    talk.tell("open", mine)
    talk.end(committed=True)
    talk.tell("committed", mine)
    talk.do(add_partitions(talk.who, [talk.place]), 3)
    talk.do(talk.produce(talk.batch(sequence=3)), 11)
    talk.tell("open again", mine)
    talk.end(committed=False)
    talk.tell("aborted", mine)
    talk.do(add_partitions(talk.who, [talk.place]), 3)
    talk.do(talk.produce(talk.batch(sequence=4)), 11)
    talk.end(committed=True, version=5)
    talk.tell("committed by TV2", mine)


@question(WriteTxnMarkersRequest, first=1)
def markers_written(talk: Talk) -> None:
    """What `kafka-transactions abort` does to a transaction that hangs."""
    aged(talk)

    def ask(who: Identity, *places: TopicPartition, committed: bool = False, coordinator: int = -1) -> Any:
        part = WriteTxnMarkersRequest.WritableTxnMarker
        topics = [
            part.WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])
            for place in places
        ]
        marker = part(
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            transaction_result=committed,
            topics=topics,
            coordinator_epoch=coordinator,
            transaction_version=0,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    talk.tell("unknown partition", ask(talk.who, TopicPartition(talk.topic, 9)))
    talk.tell("unknown topic", ask(talk.who, TopicPartition("nowhere", 0)))
    talk.tell("unknown producer", ask(talk.claim(producer_id=1 << 40), talk.place))
    talk.tell("nothing open", ask(talk.who, talk.place))
    ends(talk, "after markers without a transaction")
    talk.open(data=True)
    talk.tell("old epoch", ask(talk.claim(epoch=-1), talk.place))
    talk.tell("open, coordinator epoch -1", ask(talk.who, talk.place))
    ends(talk, "after abort")
    talk.tell("again", ask(talk.who, talk.place))
    talk.tell("state", describe(talk.name), 0)
    talk.tell("producers", active_producers(talk.place), 0)
    talk.tell("produce after abort", talk.produce(talk.batch(sequence=1)), 11)
    talk.tell("then commit", end_txn(talk.who, committed=True), 4)
    talk.completed()
    talk.open()
    talk.do(talk.produce(talk.batch(sequence=2)), 11)
    talk.tell("coordinator epoch -1 after one of 0", ask(talk.who, talk.place))
    talk.tell("coordinator epoch 0", ask(talk.who, talk.place, coordinator=0))


@question(EndTxnRequest)
def end_with_nothing_in_it(talk: Talk) -> None:
    """Partitions were announced, and nothing was sent."""
    talk.start()
    talk.open()
    talk.become_if_told(talk.tell("commit", end_txn(talk.who, committed=True)))
    talk.completed()
    ends(talk, "after")
    talk.do(add_partitions(talk.who, []), 3)
    talk.tell("commit without partitions", end_txn(talk.who, committed=True))
    talk.completed()
    talk.tell("state", describe(talk.name), 0)


@question(InitProducerIdRequest, first=4, last=4)
def fenced_producer(talk: Talk) -> None:
    """Everything that a producer tries after another has taken its id over."""
    talk.start()
    talk.open(data=True)
    old = talk.who
    group = "g." + talk.name
    talk.do(add_offsets(old, group), 3)
    talk.become(talk.do(init_producer_id(Identity(transactional_id=talk.name), timeout_ms=60_000), 4))
    ends(talk, "after takeover")
    for version in (3, 10, 11, 12):
        talk.tell(f"Produce v{version}", talk.produce(talk.batch(sequence=1, who=old)), version)
        request = talk.produce(talk.batch(who=old), partition=1)
        talk.tell(f"Produce v{version}, another partition", request, version)
    for version in (1, 3):
        talk.tell(f"AddPartitionsToTxn v{version}", add_partitions(old, [talk.place]), version)
        talk.tell(f"AddOffsetsToTxn v{version}", add_offsets(old, group), version)
    for version in (0, 3, 4, 5):
        talk.tell(f"TxnOffsetCommit v{version}", txn_offset_commit(old, group, {talk.place: 1}), version)
    for version in (1, 4, 5):
        talk.tell(f"EndTxn v{version}", end_txn(old, committed=True), version)
    talk.tell("InitProducerId, resumed", init_producer_id(old, timeout_ms=60_000), 4)
    talk.tell("state", describe(talk.name), 0)
