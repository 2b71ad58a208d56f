"""Forwards exactly the messages that are missing somewhere and stand elsewhere, once.

Whoever repairs takes a transactional id of the pipeline first and looks only then: a repair that was under way before
is either committed, and seen, or aborted. What it forwards becomes visible in one transaction. What an adapter has
still to come to is left to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.client.cluster import Cluster
from holdfast.client.offsets import Isolation
from holdfast.client.producer import partition_of_key
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import OffsetOutOfRange
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.law import Finding, Kind, Place, Sighting, Stage
from holdfast.records.build import Record, read_records

BATCH_RECORDS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One record that has to stand in another topic, too."""

    id: str
    source: Place
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What can be done about a day, and what cannot."""

    forwards: tuple[Forward, ...]
    unended: tuple[Finding, ...]
    """Messages that only the service can end: they stand in ingest alone, or their end states contradict."""
    waiting: int = 0
    """Those that an adapter has still to come to."""


def transactional_id(pipeline: Pipeline) -> str:
    """Whose transactions repairs are."""
    return f"{pipeline.name}.repair"


def plan_repair(findings: Iterable[Finding], pipeline: Pipeline, *, waiting: Iterable[Place] = ()) -> Plan:
    """For each missing message the record to forward, if there is one."""
    left_alone = set(waiting)
    forwards, unended, spared = [], [], 0
    for finding in findings:
        if finding.kind is not Kind.MISSING:
            continue
        source = _source(finding)
        if source is None:
            unended.append(finding)
        elif source.place in left_alone:
            spared += 1
        else:
            assert source.end_state is not None
            target = pipeline.audit if source.stage is Stage.DELIVERED else pipeline.topics[source.end_state]
            forwards.append(Forward(id=finding.id, source=source.place, target=target))
    return Plan(forwards=tuple(forwards), unended=tuple(unended), waiting=spared)


def forward_all(cluster: Cluster, producer: TransactionalProducer, forwards: Sequence[Forward]) -> int:
    """Forwards them in one transaction; returns how many. The producer has been initialized before anybody looked."""
    partitions = {
        target: len(cluster.topic(target).partitions) for target in {each.target for each in forwards}
    }
    batches: dict[tuple[str, int], list[Record]] = {}
    for each in forwards:
        record = fetch_record(cluster, each.source)
        into = each.source.partition % partitions[each.target]
        if record.key is not None:
            into = partition_of_key(record.key, partitions[each.target])
        batches.setdefault((each.target, into), []).append(record)
    if not batches:
        return 0
    producer.begin()
    for (topic, partition), records in batches.items():
        for start in range(0, len(records), BATCH_RECORDS):
            producer.send(topic, partition, records[start : start + BATCH_RECORDS])
    producer.commit()
    return len(forwards)


def fetch_record(cluster: Cluster, place: Place) -> Record:
    """The record there, without its offset: as it would be sent."""
    wanted = OffsetRange(
        topic=place.topic, partition=place.partition, start=place.offset, end=place.offset + 1
    )
    for chunk in read_range(cluster, wanted, isolation=Isolation.READ_COMMITTED, fetch_bytes=1 << 20):
        for batch in chunk.batches:
            for record in () if batch.is_control else read_records(batch):
                if record.offset == place.offset:
                    return Record(
                        key=record.key,
                        value=record.value,
                        headers=record.headers,
                        timestamp_ms=record.timestamp_ms,
                    )
    raise OffsetOutOfRange(f"{place} is gone: it was removed since it was seen")


def _source(finding: Finding) -> Sighting | None:
    """Audit and the end state's topic make up for each other, unless they contradict each other."""
    ended = [each for each in finding.sightings if each.stage is not Stage.INGEST]
    if len({each.end_state for each in ended}) != 1:
        return None
    audited = [each for each in ended if each.stage is Stage.AUDIT]
    return audited[0] if audited else ended[0]
