"""Records as a pipeline writes them, and the topics that they go to."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from holdfast.client.cluster import Cluster
from holdfast.client.producer import Producer
from holdfast.client.topics import create_topic, delete_topics
from holdfast.pipelines.config import EndState, Pipeline
from holdfast.pipelines.frames import ORIGIN_HEADER, STATE_HEADER
from holdfast.pipelines.recon.day import Day
from holdfast.records.record import Record
from tests.pipelines.files import make_pipeline

DAY = Day(date=date(2026, 2, 1))
PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One record and the topic that it goes to."""

    topic: str
    partition: int
    record: Record


def record(
    tenant: str | None,
    single: str | None,
    *,
    time_ms: int,
    state: EndState | None = None,
    arrived_ms: int | None = None,
    headers: Sequence[tuple[str, bytes]] = (),
) -> Record:
    """A record that says of itself what is given."""
    said = [("ce_source", b"/orders"), ("ce_time", str(time_ms).encode()), *headers]
    if tenant is not None:
        said.append(("tenant", tenant.encode()))
    if single is not None:
        said.append(("ce_id", single.encode()))
    if state is not None:
        said.append((STATE_HEADER, state.value.encode()))
    return Record(value=b"{}", headers=said, timestamp_ms=time_ms if arrived_ms is None else arrived_ms)


class Scene:
    """The topics of one pipeline, and what is written to them."""

    def __init__(self, cluster: Cluster, directory: Path, name: str, *, mode: str = "dual") -> None:
        self.pipeline: Pipeline = make_pipeline(
            directory, mode=mode, prefix=name, bootstrap=cluster.bootstrap
        )
        self._cluster = cluster
        self._said: dict[str, dict[int, list[Record]]] = defaultdict(lambda: defaultdict(list))
        self._turn = 0

    def create_topics(self) -> None:
        """Records of these tests bear times of long ago: nothing expires."""
        for topic in (self.pipeline.ingest, *self.pipeline.topics.values(), self.pipeline.audit):
            create_topic(self._cluster, topic, partitions=PARTITIONS, configs={"retention.ms": "-1"})

    def make_anew(self) -> None:
        """Other topics of the same names, with nothing in them."""
        topics = (self.pipeline.ingest, *self.pipeline.topics.values(), self.pipeline.audit)
        assert not any(delete_topics(self._cluster, topics).values())
        self.create_topics()

    def say(self, topic: str, said: Record, partition: int | None = None) -> tuple[int, int]:
        """Adds a record; returns its coordinates."""
        self._turn += 1
        into = self._turn % PARTITIONS if partition is None else partition
        records = self._said[topic][into]
        records.append(said)
        return into, len(records) - 1

    def ingest(self, tenant: str | None, single: str | None, time_ms: int) -> tuple[int, int]:
        """A message comes in."""
        return self.say(self.pipeline.ingest, record(tenant, single, time_ms=time_ms))

    def deliver(self, tenant: str, single: str, time_ms: int, *, arrived_ms: int | None = None) -> None:
        """It qualifies, and whoever wants it gets it."""
        said = record(tenant, single, time_ms=time_ms, state=EndState.QUALIFIED, arrived_ms=arrived_ms)
        self.say(self.pipeline.topics[EndState.QUALIFIED], said)

    def audit(
        self,
        tenant: str,
        single: str | None,
        time_ms: int,
        state: EndState,
        *,
        arrived_ms: int | None = None,
        origin: tuple[int, int] | None = None,
    ) -> tuple[int, int]:
        """Audit hears of it."""
        headers = []
        if origin is not None:
            headers = [(ORIGIN_HEADER, f"{self.pipeline.ingest}/{origin[0]}@{origin[1]}".encode())]
        said = record(tenant, single, time_ms=time_ms, state=state, arrived_ms=arrived_ms, headers=headers)
        return self.say(self.pipeline.audit, said)

    def end(self, tenant: str, single: str, time_ms: int, state: EndState) -> None:
        """It ends as it should."""
        if state in self.pipeline.topics:
            self.deliver(tenant, single, time_ms)
        self.audit(tenant, single, time_ms, state)

    def run(self, tenant: str, singles: Iterable[str]) -> None:
        """Messages all over the day that come in and end, in all three ways."""
        for number, single in enumerate(singles):
            time_ms = DAY.start_ms + number * 86_399_999 // 200 % 86_400_000
            self.ingest(tenant, single, time_ms)
            self.end(tenant, single, time_ms, tuple(EndState)[number % 3])

    def write(self) -> None:
        """Everything that was said, in batches."""
        for topic, partitions in self._said.items():
            Producer(self._cluster, topic).send(partitions)
        self._said.clear()
