"""Consumer groups from the outside: who is in them, and how far they have read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from holdfast.client.cluster import Cluster
from holdfast.client.connection import Connection
from holdfast.client.coordinator import CoordinatorType, ask_coordinator
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, HoldfastError

LIST_GROUPS_VERSIONS: Final = (0, 5)
DESCRIBE_GROUPS_VERSIONS: Final = (0, 5)
"""Version 6 answers with an error where these say that the group is Dead."""
OFFSET_FETCH_VERSIONS: Final = (2, 7)
"""From 2 on one can ask for all partitions, from 8 on for several groups."""
STABLE_OFFSET_FETCH_VERSIONS: Final = (7, 7)
OFFSET_COMMIT_VERSIONS: Final = (2, 8)

NO_MEMBER_GENERATION: Final = -1

Result = TypeVar("Result")


class TopicPartition(NamedTuple):
    """A partition of a topic; sorts as people read."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as a broker lists it; what an old broker does not tell is empty."""

    name: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group and the partitions that it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as its coordinator describes it; `Dead` means that there is none of that name."""

    name: str
    state: str
    protocol: str
    members: tuple[Member, ...]

    @property
    def is_active(self) -> bool:
        """Whether somebody else decides about its offsets."""
        return bool(self.members) or self.state not in {"Empty", "Dead", ""}


def list_groups(cluster: Cluster) -> list[ListedGroup]:
    """The groups of all brokers by name: each broker knows those that it coordinates."""
    found: dict[str, ListedGroup] = {}
    for node in cluster.metadata([]).brokers:
        request = ListGroupsRequest(states_filter=[], types_filter=[])
        answer = cluster.broker(node).send(request, versions=LIST_GROUPS_VERSIONS)
        if answer.error_code:
            raise refusal(answer.error_code, f"groups of node {node}")
        for each in answer.groups:
            found[each.group_id] = ListedGroup(
                name=each.group_id,
                protocol_type=each.protocol_type or "",
                state=each.group_state or "",
                type=each.group_type or "",
            )
    return [found[name] for name in sorted(found)]


def describe_group(cluster: Cluster, group: str) -> Group:
    """The group's state, its members and what they read."""

    def ask(coordinator: Connection) -> Group:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False)
        answer = coordinator.send(request, versions=DESCRIBE_GROUPS_VERSIONS)
        if len(answer.groups) != 1:
            raise ConnectionFailed(f"group {group!r}: the broker left it out of its answer")
        found = answer.groups[0]
        if found.error_code:
            raise refusal(found.error_code, f"group {group!r}")
        members = tuple(_member(each) for each in found.members)
        return Group(
            name=group,
            state=found.group_state,
            protocol=found.protocol_data,
            members=tuple(sorted(members, key=lambda member: member.member_id)),
        )

    return _at_coordinator(cluster, group, ask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A committed offset, and what was noted beside it."""

    offset: int
    metadata: str


def fetch_group_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """Every position that the group has committed."""
    return {place: found.offset for place, found in fetch_positions(cluster, group).items()}


def fetch_positions(cluster: Cluster, group: str, *, settled: bool = False) -> dict[TopicPartition, Position]:
    """The same with its metadata. `settled` waits for the end of transactions that have offsets staged (KIP-447)."""

    def ask(coordinator: Connection) -> dict[TopicPartition, Position]:
        request = OffsetFetchRequest(group_id=group, topics=None, require_stable=settled)
        versions = STABLE_OFFSET_FETCH_VERSIONS if settled else OFFSET_FETCH_VERSIONS
        answer = coordinator.send(request, versions=versions)
        if answer.error_code:
            raise refusal(answer.error_code, f"offsets of group {group!r}")
        positions = {}
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    where = f"offset of group {group!r} in {topic.name}-{each.partition_index}"
                    raise refusal(each.error_code, where)
                if each.committed_offset >= 0:
                    place = TopicPartition(topic.name, each.partition_index)
                    positions[place] = Position(offset=each.committed_offset, metadata=each.metadata or "")
        return dict(sorted(positions.items()))

    return _at_coordinator(cluster, group, ask)


def commit_group_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Sets positions from outside of the group; brokers refuse it while the group has members."""

    def ask(coordinator: Connection) -> None:
        request = _commit_request(group, offsets)
        answer = coordinator.send(request, versions=OFFSET_COMMIT_VERSIONS)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    where = f"offset of group {group!r} in {topic.name}-{each.partition_index}"
                    raise refusal(each.error_code, where)

    _at_coordinator(cluster, group, ask)


def _commit_request(group: str, offsets: Mapping[TopicPartition, int]) -> Any:
    topic_part = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = {}
    for place, offset in offsets.items():
        partition = topic_part.OffsetCommitRequestPartition(
            partition_index=place.partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        by_topic.setdefault(place.topic, []).append(partition)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=NO_MEMBER_GENERATION,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[topic_part(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    )


def _at_coordinator(cluster: Cluster, group: str, ask: Callable[[Connection], Result]) -> Result:
    """Asks the group's coordinator, anew while it moves or loads; a broken connection is final."""
    patience = cluster.patience()
    while True:
        try:
            return ask_coordinator(cluster, CoordinatorType.GROUP, group, ask)
        except ConnectionFailed:
            raise
        except HoldfastError as failure:
            patience.wait(failure)


def _member(found: Any) -> Member:
    return Member(
        member_id=found.member_id,
        instance_id=found.group_instance_id,
        client_id=found.client_id,
        host=found.client_host,
        partitions=_assignment(found.member_assignment),
    )


def _assignment(encoded: bytes | None) -> tuple[TopicPartition, ...]:
    """Empty in a rebalance, and for members that are no consumers and speak another protocol."""
    if not encoded:
        return ()
    try:
        decoded = ConsumerProtocolAssignment.decode(encoded)
        found = [
            TopicPartition(each.topic, number)
            for each in decoded.assigned_partitions
            for number in each.partitions
        ]
    except (ValueError, IndexError, TypeError, KeyError, EOFError):
        return ()
    return tuple(sorted(found))
