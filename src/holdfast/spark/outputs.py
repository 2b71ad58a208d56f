"""The partitions that rows may go to, numbered, as they stand when a batch begins."""

from dataclasses import dataclass

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.errors import ConnectionFailed, UnknownTopicOrPartition
from holdfast.spark.write_options import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Topics with their numbers of partitions. A slot is the number of a partition among all of them."""

    topics: tuple[tuple[str, int], ...]

    def __len__(self) -> int:
        return sum(partitions for _, partitions in self.topics)

    @property
    def places(self) -> list[TopicPartition]:
        """The partition that each slot stands for."""
        return [TopicPartition(topic, number) for topic, count in self.topics for number in range(count)]

    @property
    def first_slots(self) -> dict[str, int]:
        """The slot of each topic's partition 0."""
        first, found = 0, {}
        for topic, count in self.topics:
            found[topic] = first
            first += count
        return found


def find_outputs(cluster: Cluster, options: WriteOptions) -> Outputs:
    """Asks the cluster; UnknownTopicOrPartition names a topic that is missing, as none is ever created."""
    patience = cluster.patience()
    while True:
        try:
            found = cluster.metadata(options.names or None).topics
            break
        except ConnectionFailed as failure:
            patience.wait(failure)
    for name in options.names:
        if name not in found:
            raise UnknownTopicOrPartition(
                f"there is no topic {name!r} at {cluster.bootstrap}: create it first"
            )
    topics = [(name, len(topic.partitions)) for name, topic in sorted(found.items()) if not topic.is_internal]
    if not topics:
        raise UnknownTopicOrPartition(f"there is no topic at {cluster.bootstrap}: create one first")
    return Outputs(topics=tuple(topics))
