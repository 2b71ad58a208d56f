"""A broker under load: topics made fresh for each run, and what it holds counted by itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where clients of a benchmark connect to."""

    name: str
    bootstrap: str
    only_auto_creates: bool = False
    """Whether topics come into being by being asked for alone, as on librdkafka's mock cluster."""
    _numbers: Any = field(default_factory=count, repr=False)

    def fresh_topic(self, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """A topic that nothing was written to."""
        topic = f"load-{next(self._numbers)}"
        if self.only_auto_creates:
            self.producer().list_topics(topic, SECONDS_MAX)
        else:
            admin = AdminClient(self.client_config())
            new = NewTopic(topic, partitions, 1, config=dict(configs or {}))
            admin.create_topics([new])[topic].result(SECONDS_MAX)
        return topic

    def producer(self, config: Mapping[str, Any] | None = None) -> Any:
        """A producer that wants every record stored."""
        return Producer(self.client_config() | {"acks": "all"} | dict(config or {}))

    def consumer(self, config: Mapping[str, Any] | None = None) -> Any:
        """A consumer without a group's duties."""
        plain = {"group.id": "load", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer(self.client_config() | plain | dict(config or {}))

    def records_in(self, topic: str, partitions: int = 1) -> int:
        """How many records the broker took, which need not be what a client believes to have sent."""
        # A consumer as it comes would be told the last stable offset, which Apache Kafka moves after its answer.
        consumer = self.consumer({"isolation.level": "read_uncommitted"})
        try:
            # High watermarks alone: the mock cluster soon drops what it took.
            return sum(
                consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS_MAX)[1]
                for partition in range(partitions)
            )
        finally:
            consumer.close()

    def client_config(self) -> dict[str, Any]:
        """What every client needs."""
        return {"bootstrap.servers": self.bootstrap, "log_level": 2}
