"""Producers: one that fills batches, and many that wait for each record's acknowledgement."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.load.endpoint import SECONDS_MAX, Endpoint

CALL_RECORDS = 1000
QUEUE_RECORDS_MAX = 100_000
QUEUE_KBYTES_MAX = 1 << 20


def batched(
    endpoint: Endpoint,
    *,
    records: int,
    value_bytes: int,
    partitions: int = 1,
    key: bytes | None = None,
    configs: Mapping[str, str] | None = None,
) -> float:
    """MB/s of values, from the first call until the broker has acknowledged all of them."""
    topic = endpoint.fresh_topic(partitions, configs)
    producer = endpoint.producer(
        {
            "queue.buffering.max.messages": 2 * QUEUE_RECORDS_MAX,
            "queue.buffering.max.kbytes": QUEUE_KBYTES_MAX,
        }
    )
    messages = [{"key": key, "value": bytes(value_bytes)}] * CALL_RECORDS
    producer.list_topics(topic, SECONDS_MAX)
    start = time.perf_counter()
    for number in range(records // CALL_RECORDS):
        producer.produce_batch(topic, messages, partition=number % partitions)
        while len(producer) > QUEUE_RECORDS_MAX:
            producer.poll(0.001)
    left = producer.flush(SECONDS_MAX)
    elapsed = time.perf_counter() - start
    stored = endpoint.records_in(topic, partitions)
    assert (left, stored) == (0, records), f"{endpoint.name} holds {stored} of {records} records"
    return stored * value_bytes / elapsed / 1e6


def synchronous(endpoint: Endpoint, *, producers: int, seconds: float, value_bytes: int = 100) -> float:
    """Records/s of producers that each send one record and wait until it is stored."""
    return _in_turns(endpoint, producers=producers, seconds=seconds, value_bytes=value_bytes, topics=1)


def dual(endpoint: Endpoint, *, producers: int, seconds: float, value_bytes: int = 100) -> float:
    """Pairs/s of producers that each send one record to two topics and wait until both are stored."""
    return _in_turns(endpoint, producers=producers, seconds=seconds, value_bytes=value_bytes, topics=2)


def _in_turns(endpoint: Endpoint, *, producers: int, seconds: float, value_bytes: int, topics: int) -> float:
    names = [endpoint.fresh_topic() for _ in range(topics)]
    clients = [endpoint.producer({"linger.ms": 0}) for _ in range(producers)]
    value = bytes(value_bytes)
    for client in clients:
        for name in names:
            client.produce(name, value, partition=0)
        assert client.flush(SECONDS_MAX) == 0
    before = sum(map(endpoint.records_in, names))
    counts = [0] * producers
    deadline = time.perf_counter() + seconds

    def run(index: int) -> None:
        client = clients[index]
        while time.perf_counter() < deadline:
            for name in names:
                client.produce(name, value, partition=0)
            assert client.flush(SECONDS_MAX) == 0
            counts[index] += 1

    start = time.perf_counter()
    run_threads([lambda index=index: run(index) for index in range(producers)])  # type: ignore[misc]
    elapsed = time.perf_counter() - start
    stored = sum(map(endpoint.records_in, names)) - before
    assert stored == topics * sum(counts), f"{endpoint.name} holds {stored} of {topics * sum(counts)} records"
    return sum(counts) / elapsed


def run_threads(works: list[Callable[[], Any]]) -> None:
    """Run all at the same time and wait; a failure of one is raised here."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
