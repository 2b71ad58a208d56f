"""librdkafka producers that send numbered records: idempotent ones, and plain ones that send everything once."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import confluent_kafka

from soak import checker
from soak.history import ProducerHistory, Violation
from soak.workload import PATIENCE_SECONDS, TOPIC, Logs, Setting

OUTSTANDING_MAX = 500
POLL_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSpec:
    """One producer."""

    name: str
    partition: int
    is_idempotent: bool
    acks: str
    linger_ms: int
    codec: str
    value_bytes_max: int
    seed: int
    from_start: int = 0

    def build(self, bootstrap: str) -> "Producer":
        """The producer, ready to start."""
        return Producer(self, bootstrap)


def draw(chance: Random, setting: Setting) -> list[ProducerSpec]:
    """One or two of each partition, both kinds among them, and some that come later with ids of their own."""
    kinds = [(partition, bool(chance.getrandbits(1))) for partition in range(setting.partitions)]
    kinds += [(partition, not is_idempotent) for partition, is_idempotent in kinds]
    kinds += [(chance.randrange(setting.partitions), True) for _ in range(chance.randrange(3))]
    return [
        ProducerSpec(
            name=f"p{partition}-{'once' if is_idempotent else 'plain'}-{number}",
            partition=partition,
            is_idempotent=is_idempotent,
            acks="all" if is_idempotent else chance.choice(["all", "1"]),
            linger_ms=chance.choice([0, 1, 5, 20]),
            codec=chance.choice(["none", "none", "lz4", "zstd"]),
            value_bytes_max=chance.choice([40, 200, 200, 2_000, 20_000]),
            seed=chance.getrandbits(32),
            from_start=0 if number < 2 * setting.partitions else 1,
        )
        for number, (partition, is_idempotent) in enumerate(kinds)
    ]


class Producer:
    """A thread that sends until it is told to stop."""

    def __init__(self, spec: ProducerSpec, bootstrap: str) -> None:
        self.history = ProducerHistory(
            name=spec.name, partition=spec.partition, is_idempotent=spec.is_idempotent
        )
        self._spec = spec
        self._producer = confluent_kafka.Producer(_config(spec, bootstrap))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=spec.name, daemon=True)

    @property
    def acknowledged(self) -> int:
        """Records."""
        return len(self.history.acknowledged)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def finish(self, seconds_max: float) -> None:
        """Wait for every answer that still comes."""
        self._stop.set()
        self._thread.join()
        with suppress(confluent_kafka.KafkaException):
            self._producer.flush(seconds_max)
        for value in self.history.sent:
            if value not in self.history.acknowledged:
                self.history.failed.setdefault(value, "no answer at all")

    def check(self, logs: Logs) -> list[Violation]:
        """This producer's records alone; what nobody sent is found where all producers are known."""
        return list(checker.check_producer(self.history, logs[self._spec.partition]))

    def _run(self) -> None:
        values = self._values()
        while not self._stop.is_set():
            try:
                self._producer.poll(POLL_SECONDS)
                if len(self._producer) < OUTSTANDING_MAX:
                    self._send(next(values))
            except confluent_kafka.KafkaException as failure:
                # After a fatal error, such as a sequence that the log refused, librdkafka takes nothing more.
                self.history.failed.setdefault(self.history.sent[-1], failure.args[0].name())
                return

    def _send(self, value: bytes) -> None:
        self.history.sent.append(value)
        self._producer.produce(TOPIC, value, partition=self._spec.partition, on_delivery=self._on_delivery)

    def _values(self) -> Iterator[bytes]:
        chance = Random(self._spec.seed)
        number = 0
        while True:
            padding = chance.randrange(self._spec.value_bytes_max)
            yield f"{self._spec.name}:{number:06d}:".encode() + chance.randbytes(padding)
            number += 1

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.history.acknowledged[message.value()] = message.offset()
        else:
            self.history.failed[message.value()] = error.name()


def _config(spec: ProducerSpec, bootstrap: str) -> dict[str, object]:
    config: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": spec.is_idempotent,
        "acks": spec.acks,
        "linger.ms": spec.linger_ms,
        "compression.type": spec.codec,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 100,
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 50,
        "message.timeout.ms": int(2 * PATIENCE_SECONDS * 1000),
        "log_level": 0,
    }
    if not spec.is_idempotent:
        # Whoever sends again what may have been stored gets it twice, in Kafka too: only once, then.
        config["retries"] = 0
    return config
