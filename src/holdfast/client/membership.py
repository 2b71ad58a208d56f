"""Membership in a consumer group: kafka-python joins, heartbeats and commits; records are read elsewhere.

kafka-python inflates only what it finds packages for, so its own fetching stays paused.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import kafka.errors
from kafka.consumer import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.protocol.consumer import JoinGroupRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from holdfast.client.cluster import Cluster
from holdfast.client.retry import refusal
from holdfast.errors import ConnectionFailed, IllegalGeneration, RebalanceInProgress, UnknownMemberId

JOIN_GROUP_VERSIONS: Final = (0, 9)
REQUEST_MS_MAX: Final = 10_000


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]
    """One member of a group that reads one topic; not for several threads.

    Partitions are taken away only inside of `poll`: what is committed before is committed by their owner.
    `is_settled` is false until the group has given out partitions, and again while it does so anew.
    """

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        cluster.any_broker().check_offers(JoinGroupRequest, versions=JOIN_GROUP_VERSIONS)
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        self.is_settled = False
        self._group = group
        self._topic = topic
        self._consumer: Any = self._call(
            lambda: KafkaConsumer(
                bootstrap_servers=cluster.bootstrap.split(","),
                client_id="holdfast",
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                metrics_enabled=False,
                request_timeout_ms=REQUEST_MS_MAX,
                bootstrap_timeout_ms=REQUEST_MS_MAX,
            )
        )
        self._consumer.subscribe([topic], listener=self)
        # Else it joins before it knows of any partition, and then once more.
        self._call(lambda: self._consumer.partitions_for_topic(topic))

    def poll(self, wait_ms: int) -> frozenset[int]:
        """Takes part in what the group does, and returns the partitions that are this member's now."""
        self._call(lambda: self._consumer.poll(timeout_ms=wait_ms))
        return frozenset(place.partition for place in self._consumer.assignment() or ())

    def commit(self, positions: Mapping[int, int]) -> bool:
        """Notes positions for the group; False while the group gives out partitions anew, perhaps to others."""
        offsets = {
            TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in positions.items()
        }
        try:
            self._call(lambda: self._consumer.commit(offsets, timeout_ms=REQUEST_MS_MAX))
        except (IllegalGeneration, RebalanceInProgress, UnknownMemberId):
            return False
        return True

    def close(self) -> None:
        """Leaves the group, so that others take over at once."""
        self._call(lambda: self._consumer.close(autocommit=False, timeout_ms=REQUEST_MS_MAX))

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Part of kafka-python's listener."""
        self.is_settled = True
        self._consumer.pause(*assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Part of kafka-python's listener."""
        self.is_settled = False

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (kafka.errors.KafkaConnectionError, kafka.errors.KafkaTimeoutError) as failure:
            raise ConnectionFailed(f"group {self._group!r}: {failure}") from failure
        except kafka.errors.CommitFailedError as failure:
            raise RebalanceInProgress(f"group {self._group!r} has moved on: {failure}") from failure
        except kafka.errors.KafkaError as failure:
            raise refusal(getattr(failure, "errno", -1), f"group {self._group!r}") from failure
