"""Offsets staged in a transaction: whose, for which group, and who sees them when (KIP-447)."""

from typing import Any

from kafka.protocol.consumer import JoinGroupRequest, OffsetFetchRequest, SyncGroupRequest
from kafka.protocol.producer import TxnOffsetCommitRequest

from holdfast.client.groups import TopicPartition
from holdfast.client.transactions import NO_MEMBER, GroupMember, add_offsets, txn_offset_commit
from tests.agent import requests
from tests.kafka.questions.asking import aged, question, strangers
from tests.kafka.talk import Talk, describe


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
