"""What partitions take on disk, as the brokers that lead them tell."""

from collections.abc import Iterable, Mapping
from typing import Final

from kafka.protocol.admin import DescribeLogDirsRequest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import EARLIEST, LATEST, list_offsets
from holdfast.client.retry import refusal

DESCRIBE_LOG_DIRS_VERSIONS: Final = (1, 4)


def bytes_per_offset(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
    """The mean over each partition; 0 where it is empty."""
    by_topic: dict[str, list[int]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(place.partition)
    sizes = _sizes(cluster, by_topic)
    found = {}
    for topic, partitions in by_topic.items():
        first = list_offsets(cluster, topic, dict.fromkeys(partitions, EARLIEST))
        last = list_offsets(cluster, topic, dict.fromkeys(partitions, LATEST))
        for partition in partitions:
            place = TopicPartition(topic, partition)
            found[place] = sizes.get(place, 0) / max(1, last[partition] - first[partition])
    return found


def bytes_on(cluster: Cluster, node: int, by_topic: Mapping[str, Iterable[int]]) -> dict[TopicPartition, int]:
    """What one broker's replicas of some partitions take on its disks."""
    topic_part = DescribeLogDirsRequest.DescribableLogDirTopic
    request = DescribeLogDirsRequest(
        topics=[topic_part(topic=name, partitions=list(numbers)) for name, numbers in by_topic.items()]
    )
    answer = cluster.broker(node).send(request, versions=DESCRIBE_LOG_DIRS_VERSIONS)
    sizes: dict[TopicPartition, int] = {}
    for result in answer.results:
        if result.error_code:
            raise refusal(result.error_code, f"what node {node} has on disk")
        for topic in result.topics:
            for each in topic.partitions:
                place = TopicPartition(topic.name, each.partition_index)
                sizes[place] = max(sizes.get(place, 0), each.partition_size)
    return sizes


def _sizes(cluster: Cluster, by_topic: dict[str, list[int]]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = {}
    for node in cluster.metadata([]).brokers:
        for place, size in bytes_on(cluster, node, by_topic).items():
            sizes[place] = max(sizes.get(place, 0), size)
    return sizes
