"""Producers that publish to two topics: with a flush after each, or both in one transaction."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.load.endpoint import SECONDS_MAX, Endpoint
from bench.load.produce import run_threads

TOPICS = 2
PER_MESSAGE = TOPICS
"""The size of a turn that sends one message to each topic."""


class Fleet:
    """Producers of two topics of their own, connected and ready: what a run measures has no beginnings in it."""

    def __init__(self, endpoint: Endpoint, *, producers: int, transactional: bool) -> None:
        self._endpoint = endpoint
        self.last_seconds = 0.0
        """How long the last run took."""
        self._topics = [endpoint.fresh_topic() for _ in range(TOPICS)]
        self._transactional = transactional
        self._turn: Callable[..., None] = self._transact if transactional else self._flush_each
        self._clients = [self._client(number) for number in range(producers)]
        run_threads([partial(self._begin, client) for client in self._clients])

    def run(self, *, size: int, seconds: float, value_bytes: int = 100) -> float:
        """Messages/s of producers that publish `size` messages in turn, half of them to each topic."""
        value = bytes(value_bytes)
        counts = [0] * len(self._clients)
        before = self._stored()
        start = time.perf_counter()
        deadline = start + seconds

        def work(index: int) -> None:
            while time.perf_counter() < deadline:
                self._turn(self._clients[index], size, value)
                counts[index] += size

        run_threads([partial(work, index) for index in range(len(self._clients))])
        self.last_seconds = time.perf_counter() - start
        sent, stored = sum(counts), self._stored() - before
        # The markers of Apache Kafka's transactions take offsets, too.
        assert stored >= sent if self._transactional else stored == sent, (
            f"{self._endpoint.name} holds {stored} of {sent} records"
        )
        return sent / self.last_seconds

    def _client(self, number: int) -> Any:
        # Records linger as the client comes: a flush and a commit send at once what waits.
        identity = {"transactional.id": f"{self._topics[0]}-{number}"} if self._transactional else {}
        return self._endpoint.producer(identity)

    def _begin(self, client: Any) -> None:
        if self._transactional:
            client.init_transactions(SECONDS_MAX)
        self._turn(client, PER_MESSAGE)

    def _transact(self, client: Any, size: int, value: bytes = b"first") -> None:
        client.begin_transaction()
        for topic in self._topics:
            for _ in range(size // TOPICS):
                client.produce(topic, value, partition=0)
        client.commit_transaction(SECONDS_MAX)

    def _flush_each(self, client: Any, size: int, value: bytes = b"first") -> None:
        for topic in self._topics:
            for _ in range(size // TOPICS):
                client.produce(topic, value, partition=0)
            assert client.flush(SECONDS_MAX) == 0

    def _stored(self) -> int:
        return sum(map(self._endpoint.records_in, self._topics))
