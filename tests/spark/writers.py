"""Clients that write a compacted topic for as long as they are let, and what it must show at any offset."""

import threading
import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

KEYS = 40
PAUSE_SECONDS_MAX = 0.004


class Written(NamedTuple):
    """A record that counts."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


class Writers:
    """One producer without transactions, and one with; a third of its transactions are taken back."""

    def __init__(self, bootstrap: str, topic: str, *, seed: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.written: list[Written] = []
        self.faults: list[object] = []
        self._threads = [
            threading.Thread(target=self._run, args=(work, Random(seed + number)), daemon=True)
            for number, work in enumerate((self._write_plain, self._write_transactions))
        ]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more; twice is no harm."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def table(self, partition: int, end: int) -> dict[bytes, tuple[int, bytes]]:
        """What a compacted topic stands for at an offset: offset and value of each key."""
        newest = {
            each.key: (each.offset, each.value)
            for each in sorted(self.written, key=lambda each: each.offset)
            if each.partition == partition and each.offset < end
        }
        return {key: (offset, value) for key, (offset, value) in newest.items() if value is not None}

    def _run(self, work: Callable[[Random], None], random: Random) -> None:
        try:
            work(random)
        except Exception as fault:
            self.faults.append(fault)

    def _send(self, producer: Producer, random: Random, into: list[Written], faults: list[object]) -> None:
        key = b"k%d" % random.randrange(KEYS)
        value = None if random.random() < 0.15 else random.randbytes(random.randrange(1, 200))

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                faults.append(error)
            else:
                into.append(Written(message.partition(), message.offset(), key, value))

        producer.produce(self._topic, key=key, value=value, on_delivery=delivered)
        producer.poll(0)
        time.sleep(random.random() * PAUSE_SECONDS_MAX)

    def _write_plain(self, random: Random) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        sent: list[Written] = []
        while not self._over.is_set():
            self._send(producer, random, sent, self.faults)
        assert producer.flush(30) == 0
        with self._lock:
            self.written += sent

    def _write_transactions(self, random: Random) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": "writer", "log_level": 0}
        )
        producer.init_transactions(30)
        while not self._over.is_set():
            sent: list[Written] = []
            faults: list[object] = []
            producer.begin_transaction()
            for _ in range(random.randrange(1, 6)):
                self._send(producer, random, sent, faults)
            if random.random() < 1 / 3:
                # Whatever was not sent yet is thrown away, and told as a fault.
                producer.abort_transaction(30)
                continue
            producer.commit_transaction(30)
            self.faults += faults
            with self._lock:
                self.written += sent
