"""A librdkafka consumer that follows all partitions while they are written to and the process is killed."""

import threading
from dataclasses import dataclass
from random import Random

import confluent_kafka

from soak import checker
from soak.history import LogRecord, ReaderHistory, Violation
from soak.workload import TOPIC, Logs, Setting

POLL_SECONDS = 0.1
BATCH_MAX = 1_000

EXPECTED_FAILURES = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
"""What a crash may tell a consumer, which goes on by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSpec:
    """One reader of all partitions."""

    partitions: int
    from_start: int = 0

    def build(self, bootstrap: str) -> "Reader":
        """The reader, ready to start."""
        return Reader(self, bootstrap)


def draw(chance: Random, setting: Setting) -> list[ReaderSpec]:
    """Always one: it sees what must not go away again."""
    return [ReaderSpec(partitions=setting.partitions)]


class Reader:
    """A thread that reads from offset 0 on and keeps all it got."""

    def __init__(self, spec: ReaderSpec, bootstrap: str) -> None:
        self.histories = [ReaderHistory(partition=partition) for partition in range(spec.partitions)]
        self.errors: list[str] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                # A position beyond the end means that something was shown and then lost.
                "auto.offset.reset": "error",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign(
            [confluent_kafka.TopicPartition(TOPIC, partition, 0) for partition in range(spec.partitions)]
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    @property
    def acknowledged(self) -> int:
        """A reader is promised nothing."""
        return 0

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def finish(self, seconds_max: float) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def check(self, logs: Logs) -> list[Violation]:
        """All that was ever seen against what is there."""
        found = [Violation(checker.UNSTABLE, f"the reader met {error}") for error in self.errors]
        for history in self.histories:
            found += checker.check_reader(history, logs[history.partition])
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(BATCH_MAX, timeout=POLL_SECONDS):
                error = message.error()
                if error is None:
                    self.histories[message.partition()].seen.append(
                        LogRecord(message.offset(), message.value())
                    )
                elif error.name() not in EXPECTED_FAILURES:
                    self.errors.append(f"{error.name()}: {error.str()}")
