"""A read_committed librdkafka consumer that follows some partitions from offset 0 and keeps all it gets."""

import threading
import time
from collections.abc import Mapping, Sequence

import confluent_kafka

from soak import checker
from soak.clients.confluent import EXPECTED_FAILURES, RECONNECT
from soak.history import Violation
from soak.txn_history import CommittedReader, Place, Sighting

POLL_SECONDS = 0.1
BATCH_MAX = 1_000


class Watcher:
    """A thread; each record has the time at which it was certainly there."""

    def __init__(self, name: str, bootstrap: str, places: Sequence[Place]) -> None:
        self.history = CommittedReader(name=name)
        self.errors: list[str] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                **RECONNECT,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in places])
        self._next: dict[Place, int] = dict.fromkeys(places, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def finish(self, ends: Mapping[Place, int], seconds_max: float) -> None:
        """Read no more once the last record below each of these ends has come."""
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline and any(self._next[place] < end for place, end in ends.items()):
            time.sleep(POLL_SECONDS / 10)
        self._stop.set()
        self._thread.join()
        self._consumer.close()
        for place, end in ends.items():
            if self._next[place] < end:
                self.errors.append(f"no way past offset {self._next[place]} of {place}, which ends at {end}")

    def check(self) -> list[Violation]:
        """What is wrong whatever it read."""
        return [Violation(checker.UNSTABLE, f"{self.history.name} met {error}") for error in self.errors]

    def _run(self) -> None:
        while not self._stop.is_set():
            polled = self._consumer.consume(BATCH_MAX, timeout=POLL_SECONDS)
            at_ns = time.monotonic_ns()
            for message in polled:
                error = message.error()
                if error is None:
                    place = Place(message.topic(), message.partition())
                    self.history.seen.append(Sighting(place, message.offset(), message.value(), at_ns))
                    self._next[place] = message.offset() + 1
                elif error.name() not in EXPECTED_FAILURES:
                    self.errors.append(f"{error.name()}: {error.str()}")
