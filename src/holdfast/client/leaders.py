"""Who leads a partition of a Kafka cluster: Kafka knows only the preferred replica, so it is made that first."""

from collections.abc import Sequence
from typing import Final

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.retry import refusal
from holdfast.errors import ElectionNotNeeded, HoldfastError, TransientRefusal

REASSIGNMENTS_VERSIONS: Final = (0, 0)
ELECT_LEADERS_VERSIONS: Final = (1, 2)
REQUEST_MS_MAX: Final = 10_000
_PREFERRED: Final = 0


def move_leader(cluster: Cluster, place: TopicPartition, node: int) -> None:
    """Let a replica that is in sync lead: put it first in the assignment, then have the first one elected."""
    patience = cluster.patience()
    while True:
        try:
            partition = cluster.topic(place.topic).partitions[place.partition]
            if partition.leader == node:
                return
            others = [number for number in partition.replicas if number != node]
            assign_replicas(cluster, place, [node, *others])
            elect_preferred(cluster, place)
            raise TransientRefusal(f"node {node} does not lead {place.topic}-{place.partition} yet")
        except HoldfastError as failure:
            patience.wait(failure)


def assign_replicas(cluster: Cluster, place: TopicPartition, nodes: Sequence[int]) -> None:
    """Let these brokers hold the partition, the first of them preferred; returns before data has moved."""
    topic_part = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition = topic_part.ReassignablePartition(partition_index=place.partition, replicas=list(nodes))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=REQUEST_MS_MAX, topics=[topic_part(name=place.topic, partitions=[partition])]
    )
    where = f"assigning {place.topic}-{place.partition}"
    answer = cluster.controller().send(request, versions=REASSIGNMENTS_VERSIONS)
    if answer.error_code:
        raise refusal(answer.error_code, where, answer.error_message)
    for each in [each for topic in answer.responses for each in topic.partitions]:
        if each.error_code:
            raise refusal(each.error_code, where, each.error_message)


def elect_preferred(cluster: Cluster, place: TopicPartition) -> None:
    """Let the first assigned replica lead; that it does already is fine."""
    topic_part = ElectLeadersRequest.TopicPartitions
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[topic_part(topic=place.topic, partitions=[place.partition])],
        timeout_ms=REQUEST_MS_MAX,
    )
    where = f"electing a leader of {place.topic}-{place.partition}"
    answer = cluster.controller().send(request, versions=ELECT_LEADERS_VERSIONS)
    if answer.error_code:
        raise refusal(answer.error_code, where)
    for each in [each for topic in answer.replica_election_results for each in topic.partition_result]:
        if each.error_code not in (0, ElectionNotNeeded.kafka_code):
            raise refusal(each.error_code, where, each.error_message)
