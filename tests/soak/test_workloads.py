"""Workloads by themselves: what goes wrong in their threads ends up in their histories."""

import confluent_kafka
import pytest

from soak import checker
from soak.workloads.produce import Producer, ProducerSpec

SPEC = ProducerSpec(
    name="p",
    partition=0,
    is_idempotent=True,
    acks="all",
    linger_ms=0,
    codec="none",
    value_bytes_max=10,
    seed=1,
)


class Refused(confluent_kafka.Producer):
    """librdkafka after a fatal error."""

    def produce(self, *_: object, **__: object) -> None:
        """It takes nothing more."""
        raise confluent_kafka.KafkaException(
            confluent_kafka.KafkaError(confluent_kafka.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        )


def test_a_producer_that_was_refused_for_good_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log does not get away with it because the thread is gone."""
    monkeypatch.setattr(confluent_kafka, "Producer", Refused)
    producer = Producer(SPEC, "127.0.0.1:1")
    producer.start()
    producer.finish(10.0)
    found = producer.check({0: []})
    assert [violation.rule for violation in found] == [checker.REFUSED]
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in found[0].what
