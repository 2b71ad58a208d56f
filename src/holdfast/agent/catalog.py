"""The topics as this agent knows them, and the rules for their names."""

import re
from uuid import UUID

from holdfast.control.plane import ControlPlane, Partition, Topic
from holdfast.errors import (
    FencedLeaderEpoch,
    InvalidTopic,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

NAME_LENGTH_MAX = 249

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Catalog:
    """A cache over the control plane's topics and stores; refreshed when one of them changes."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self.in_sync: frozenset[int] = frozenset()
        self.refresh()

    def refresh(self) -> None:
        """Read all topics anew, and which stores are in sync."""
        self.in_sync = self._plane.find_in_sync()
        self._by_name = {topic.name: topic for topic in self._plane.list_topics()}
        self._by_id = {topic.topic_id: topic for topic in self._by_name.values()}

    def has_all(self, partition: Partition, store: int) -> bool:
        """Whether the store has a replica of the partition that is in sync."""
        return store in partition.replicas and store in self.in_sync and store not in partition.joining

    def all(self) -> list[Topic]:
        """Every topic, by name."""
        return list(self._by_name.values())

    def find(self, name: str) -> Topic | None:
        """The topic of that name, if there is one."""
        return self._by_name.get(name)

    def find_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id, if there is one."""
        return self._by_id.get(topic_id)

    def get(self, name: str | UUID) -> Topic:
        """The topic of that name or id; raises the error that clients expect for either."""
        if isinstance(name, UUID):
            try:
                return self._by_id[name]
            except KeyError:
                raise UnknownTopicId(f"no topic has id {name}") from None
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownTopicOrPartition(f"no topic {name!r}") from None


def check_name(name: str) -> None:
    """Raise InvalidTopic unless Kafka allows the name."""
    if name in {"", ".", ".."} or len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        raise InvalidTopic(
            f"{name!r} is not a topic name: 1 to {NAME_LENGTH_MAX} of letters, digits, '.', '_' and '-'"
        )


def check_partition(topic: Topic, partition: int) -> Partition:
    """The topic's partition; UnknownTopicOrPartition if it has no such."""
    if not 0 <= partition < len(topic.partitions):
        raise UnknownTopicOrPartition(f"{topic.name!r} has partitions 0 to {len(topic.partitions) - 1}")
    return topic.partitions[partition]


def check_leader_epoch(partition: Partition, known: int | None) -> None:
    """Raise if the client knows an older or a newer leader epoch than this one (KIP-320); -1: it knows none."""
    if known is None or known < 0 or known == partition.leader_epoch:
        return
    if known < partition.leader_epoch:
        raise FencedLeaderEpoch(f"leader epoch {known} is over: it is {partition.leader_epoch} by now")
    raise UnknownLeaderEpoch(f"leader epoch {known} is not known here: it is {partition.leader_epoch}")
