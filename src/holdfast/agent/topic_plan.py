"""Planning changes to topics: each is judged on top of what the commits before, and this one so far, have made."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from holdfast.agent.partition_key import PartitionKey
from holdfast.control.plane import Topic
from holdfast.errors import InvalidPartitions, TopicAlreadyExists, UnknownTopicOrPartition
from holdfast.store.footer import Change, PartitionsAdded, TopicConfigured, TopicCreated, TopicDeleted

Configs = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """What must be known of a topic to change it."""

    name: str
    partitions: int
    configs: Configs


@dataclass(slots=True)
class KnownTopics:
    """All topics as the last commit left them."""

    by_id: dict[UUID, KnownTopic] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, topics: Iterable[Topic]) -> "KnownTopics":
        """What the control plane says."""
        known = cls()
        for topic in topics:
            count = len(topic.partitions)
            known.put(topic.topic_id, KnownTopic(name=topic.name, partitions=count, configs=topic.configs))
        return known

    def list_partitions(self) -> list[PartitionKey]:
        """Every partition of every topic."""
        return [
            PartitionKey(topic_id, partition)
            for topic_id, topic in self.by_id.items()
            for partition in range(topic.partitions)
        ]

    def put(self, topic_id: UUID, topic: KnownTopic) -> None:
        """A topic is new or has changed."""
        self.by_id[topic_id] = topic
        self.names.add(topic.name)

    def remove(self, topic_id: UUID) -> KnownTopic:
        """A topic is gone."""
        topic = self.by_id.pop(topic_id)
        self.names.remove(topic.name)
        return topic


class TopicPlan:
    """Changes to topics in one commit. What is known stays as it is until `publish`."""

    def __init__(self, known: KnownTopics) -> None:
        self.changes: list[Change] = []
        self.deletions: list[Change] = []
        self._known = known
        self._changed: dict[UUID, KnownTopic] = {}
        self._created: set[str] = set()
        self._deleted: set[UUID] = set()

    def create(self, change: TopicCreated) -> None:
        """TopicAlreadyExists if there is one of that name; one that is deleted in this commit still is."""
        if change.name in self._created or change.name in self._known.names:
            raise TopicAlreadyExists(f"topic {change.name!r} exists already")
        self._created.add(change.name)
        self._changed[change.topic_id] = KnownTopic(
            name=change.name, partitions=len(change.replicas), configs=change.configs
        )
        self.changes.append(change)

    def delete(self, topic_id: UUID) -> None:
        """UnknownTopicOrPartition if it is gone already."""
        self.get(topic_id)
        self._deleted.add(topic_id)
        self.deletions.append(TopicDeleted(topic_id))

    def add_partitions(self, topic_id: UUID, first: int, replicas: list[list[int]]) -> None:
        """InvalidPartitions if there are others than `first` by now."""
        topic = self.get(topic_id)
        if topic.partitions != first:
            raise InvalidPartitions(f"topic {topic.name!r} has {topic.partitions} partitions by now")
        self._changed[topic_id] = replace(topic, partitions=first + len(replicas))
        self.changes.append(PartitionsAdded(topic_id, first, replicas))

    def configure(self, topic_id: UUID, update: Callable[[Mapping[str, str]], Configs]) -> None:
        """Let `update` make new configs of the present ones; it may refuse."""
        topic = self.get(topic_id)
        configs = update(topic.configs)
        if configs == topic.configs:
            return
        self._changed[topic_id] = replace(topic, configs=configs)
        self.changes.append(TopicConfigured(topic_id, configs))

    def get(self, topic_id: UUID) -> KnownTopic:
        """The topic as planned so far; UnknownTopicOrPartition."""
        topic = self._changed.get(topic_id) or self._known.by_id.get(topic_id)
        if topic is None or topic_id in self._deleted:
            raise UnknownTopicOrPartition(f"there is no topic {topic_id} any more")
        return topic

    def publish(self) -> dict[UUID, int]:
        """The commit has succeeded; topics that it deleted, with their numbers of partitions."""
        for topic_id, topic in self._changed.items():
            self._known.put(topic_id, topic)
        return {topic_id: self._known.remove(topic_id).partitions for topic_id in self._deleted}

    @property
    def is_empty(self) -> bool:
        """Whether all topics stay as they are."""
        return not self.changes and not self.deletions
