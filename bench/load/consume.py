"""A consumer that reads a topic from its beginning."""

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from bench.load.endpoint import SECONDS_MAX, Endpoint

CALL_RECORDS = 10_000
# As librdkafka comes, it pauses for a second whenever 100,000 messages wait.
TUNED = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 20,
    "fetch.queue.backoff.ms": 10,
}


def reading(endpoint: Endpoint, *, records: int, value_bytes: int) -> Callable[[], float]:
    """Fills a topic once; each call reads all of it, which was read before, and gives MB/s of values."""
    topic = endpoint.fresh_topic()
    producer = endpoint.producer({"queue.buffering.max.messages": records + 1})
    messages = [{"value": bytes(value_bytes)}] * CALL_RECORDS
    for _ in range(records // CALL_RECORDS):
        producer.produce_batch(topic, messages, partition=0)
        assert producer.flush(SECONDS_MAX) == 0
    assert endpoint.records_in(topic) == records

    def read() -> float:
        consumer = endpoint.consumer(TUNED)
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            taken = len(consumer.consume(1, timeout=SECONDS_MAX))
            start = time.perf_counter()
            while taken < records:
                # It waits for as many as it is asked for.
                found = consumer.consume(min(CALL_RECORDS, records - taken), timeout=SECONDS_MAX)
                assert found, f"{endpoint.name} gave nothing more after {taken} of {records} records"
                taken += len(found)
            return records * value_bytes / (time.perf_counter() - start) / 1e6
        finally:
            consumer.close()

    return read
