"""Looks at a pipeline from outside of it, with nothing but requests that every Kafka cluster answers."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition, fetch_group_offsets
from holdfast.client.hanging import list_open_writes
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.topics import describe_configs
from holdfast.client.transactional_ids import TransactionDescription, describe_open
from holdfast.pipelines.config import Mode, Pipeline
from holdfast.pipelines.identity import identify
from holdfast.pipelines.recon.reading import carried
from holdfast.pipelines.state import PartFiles
from holdfast.pipelines.status import parts_of
from holdfast.pipelines.watch.books import Books
from holdfast.pipelines.watch.canaries import Canaries
from holdfast.pipelines.watch.fingerprints import KeptBooks
from holdfast.pipelines.watch.world import Forwarding, Mismatch, OpenTransaction, Spending, World
from holdfast.records.build import Record, read_records

CONFIGS_EVERY_MS: Final = 60_000
FIRST_BYTES: Final = 64 << 10
FIRST_RECORDS: Final = 200
"""By so many of the first records it is told whose messages wait."""
ALIVE: Final = frozenset({"starting", "running"})
"""What a part says of itself while it lives, and for ever if it was killed."""


class Watched(NamedTuple):
    """A group that has to get on, and the topic that it reads."""

    group: str
    topic: str
    step: int
    """How many groups have forwarded its messages before."""


def watched(pipeline: Pipeline) -> list[Watched]:
    """The service, and adapters if there are some."""
    adapters = pipeline.adapters if pipeline.mode is Mode.ADAPTER else ()
    service = Watched(pipeline.service_group, pipeline.ingest, step=0)
    return [service, *(Watched(each.group, each.topic, step=1) for each in adapters)]


def last_told(pipeline: Pipeline) -> tuple[int, str] | None:
    """When the part that has been silent longest told of itself, and which; None where none runs here, or is to run."""
    states = {part: PartFiles(pipeline.checkpoint, part).read() for part in parts_of(pipeline)}
    told = [
        (state.updated_ms, f"the {part}, process {state.pid},")
        for part, state in states.items()
        if state is not None and state.phase in ALIVE
    ]
    return min(told, default=None)


class Observer:
    """One look after the other."""

    def __init__(self, cluster: Cluster, pipeline: Pipeline, *, canaries: bool) -> None:
        self._cluster = cluster
        self._pipeline = pipeline
        self._retention: dict[str, tuple[int, int | None]] = {}
        """By topic, when it was asked for and what it was."""
        self._first_seen: dict[tuple[int, TopicPartition], int] = {}
        topics = [each.topic for each in watched(pipeline) if each.step]
        self._canaries = (
            Canaries(cluster, topics=topics, audit=pipeline.audit, every_ms=pipeline.alarms.canary_ms)
            if canaries and topics
            else None
        )
        tally = pipeline.tally if pipeline.mode is Mode.TRANSACTION else None
        self._tallies = None if tally is None else Books(cluster, tally.topic)
        self._kept = KeptBooks(cluster, pipeline)

    def look(self, now_ms: int) -> World:
        """What is there now; raises what the cluster refuses, or that it cannot be reached."""
        canaries = self._canaries.look(now_ms) if self._canaries is not None else ()
        forwardings = [
            forwarding for each in watched(self._pipeline) for forwarding in self._forwardings(each, now_ms)
        ]
        mismatches, spendings = self._look_at_books(now_ms)
        told = last_told(self._pipeline)
        return World(
            now_ms=now_ms,
            forwardings=tuple(forwardings),
            canaries=canaries,
            mismatches=mismatches,
            spendings=spendings,
            progressed_ms=told[0] if told is not None else None,
            silent=told[1] if told is not None else "",
        )

    def _look_at_books(self, now_ms: int) -> tuple[tuple[Mismatch, ...], tuple[Spending, ...]]:
        """Tallies tell what a service has done; what stands in the topics, whoever wrote it, is in fingerprints."""
        kept, spendings = self._kept.look(now_ms)
        if self._tallies is None:
            return kept, spendings
        told, spendings = self._tallies.look(now_ms)
        named = {(each.tenant, each.window_ms) for each in told}
        return told + tuple(each for each in kept if (each.tenant, each.window_ms) not in named), spendings

    def _forwardings(self, each: Watched, now_ms: int) -> Iterator[Forwarding]:
        group, topic = each.group, each.topic
        partitions = self._cluster.topic(topic).partitions
        # Positions first: a group that gets on meanwhile must not seem to be ahead of its topic.
        positions = fetch_group_offsets(self._cluster, group)
        first = list_offsets(self._cluster, topic, dict.fromkeys(partitions, EARLIEST))
        latest = dict.fromkeys(partitions, LATEST)
        stable = list_offsets(self._cluster, topic, latest, isolation=Isolation.READ_COMMITTED)
        last = list_offsets(self._cluster, topic, latest)
        held = [TopicPartition(topic, number) for number in partitions if stable[number] < last[number]]
        transactions = self._transactions(held, now_ms) if held else {}
        for number in partitions:
            place = TopicPartition(topic, number)
            committed = positions.get(place)
            oldest_ms: int | None = None
            tenants: tuple[str, ...] = ()
            if committed is not None and committed < stable[number]:
                oldest_ms, tenants = self._first_waiting(place, max(committed, first[number]), stable[number])
            yield Forwarding(
                group=group,
                topic=topic,
                partition=number,
                step=each.step,
                log_start=first[number],
                stable_end=stable[number],
                log_end=last[number],
                committed=committed,
                oldest_ms=oldest_ms,
                tenants=tenants,
                retention_ms=self._retention_ms(topic, now_ms),
                transaction=transactions.get(place),
            )

    def _transactions(self, held: list[TopicPartition], now_ms: int) -> dict[TopicPartition, OpenTransaction]:
        """The oldest undecided of each partition."""
        known: dict[int, TransactionDescription] = {
            each.producer_id: each for each in describe_open(self._cluster)
        }
        found: dict[TopicPartition, OpenTransaction] = {}
        for write in sorted(list_open_writes(self._cluster, held), key=lambda write: write.start):
            if write.place in found:
                continue
            described = known.get(write.producer_id)
            since_ms = self._first_seen.setdefault((write.producer_id, write.place), now_ms)
            found[write.place] = OpenTransaction(
                producer_id=write.producer_id,
                transactional_id=described.name if described else None,
                opened_ms=described.started_ms if described and described.started_ms else since_ms,
                first_offset=write.start,
            )
        self._first_seen = {key: since_ms for key, since_ms in self._first_seen.items() if key[1] in found}
        return found

    def _first_waiting(
        self, place: TopicPartition, start: int, end: int
    ) -> tuple[int | None, tuple[str, ...]]:
        """The time of the first record from an offset on, and whose messages the first are."""
        wanted = OffsetRange(topic=place.topic, partition=place.partition, start=start, end=end)
        records = list(islice(self._read(wanted), FIRST_RECORDS))
        own = self._pipeline.identity
        identity = own if place.topic == self._pipeline.ingest else carried(own)
        tenants = {identify(record, identity).tenant for record in records}
        return (
            records[0].timestamp_ms if records else None,
            tuple(sorted(each for each in tenants if each is not None)),
        )

    def _read(self, wanted: OffsetRange) -> Iterator[Record]:
        """A first piece of it; whoever asks for the beginning need not read on."""
        chunks = read_range(
            self._cluster, wanted, isolation=Isolation.READ_COMMITTED, fetch_bytes=FIRST_BYTES
        )
        for chunk in islice(chunks, 1):
            for batch in without_aborted(chunk.batches, chunk.aborted):
                for record in () if batch.is_control else read_records(batch):
                    if record.offset is not None and wanted.start <= record.offset < wanted.end:
                        yield record

    def _retention_ms(self, topic: str, now_ms: int) -> int | None:
        asked_ms, found = self._retention.get(topic, (None, None))
        if asked_ms is None or now_ms - asked_ms >= CONFIGS_EVERY_MS:
            configs = {entry.name: entry.value or "" for entry in describe_configs(self._cluster, topic)}
            retention_ms = int(configs.get("retention.ms") or -1)
            expires = "delete" in configs.get("cleanup.policy", "delete") and retention_ms >= 0
            found = retention_ms if expires else None
            self._retention[topic] = (now_ms, found)
        return found
