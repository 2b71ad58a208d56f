"""The book of days: a record for every tenant's day that was closed or found open, in a compacted topic.

A verdict outlives what it rests upon: when the messages of a closed day have expired, the day is still closed. It is
struck out only by a later verdict that finds it open, as late messages may make it. A day that was never closed stands
there as open, so that the watermark stops before it. See `docs/formats.md`.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.client.producer import Producer
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.topics import create_topic
from holdfast.errors import CorruptData, TopicAlreadyExists
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.day import DayState, Verdict
from holdfast.records.build import Record, read_records

FORMAT: Final = 1
COMPACTED: Final = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRecord:
    """What the book says about a tenant's day."""

    pipeline: str
    tenant: str
    day: date
    state: DayState
    judged_ms: int
    ingested: int
    ended: Mapping[str, int]
    """By end state, as audit has it."""
    found: Mapping[str, int]
    """By kind, what was found to be wrong."""
    read: Mapping[str, tuple[int, int]]
    """By partition, as `topic-0`: the offsets that the verdict rests upon."""


def topic_of(pipeline: Pipeline) -> str:
    """Where the book is kept."""
    return f"{pipeline.name}.days"


def to_record(verdict: Verdict, pipeline: Pipeline) -> DayRecord:
    """What is worth keeping of a verdict."""
    evidence = verdict.evidence
    return DayRecord(
        pipeline=pipeline.name,
        tenant=verdict.tenant,
        day=verdict.day.date,
        state=verdict.state,
        judged_ms=evidence.now_ms,
        ingested=verdict.total.ingested,
        ended={state.value: count for state, count in verdict.total.audited.items()},
        found={kind.value: count for kind, count in evidence.found.items() if count},
        read={str(view): (view.start, view.read_to) for view in evidence.partitions},
    )


def is_news(verdict: Verdict, known: DayRecord | None) -> bool:
    """Whether the book has to be written: a day closes, or is found open and does not stand there as such."""
    is_known_open = known is not None and known.state is DayState.OPEN
    return verdict.state is DayState.CLOSED or (verdict.state is DayState.OPEN and not is_known_open)


def encode_key(record: DayRecord) -> bytes:
    """Day first: it has no slash of its own."""
    return f"{record.day.isoformat()}/{record.tenant}".encode()


def encode_value(record: DayRecord) -> bytes:
    """The value of the record."""
    fields = {
        "format": FORMAT,
        "pipeline": record.pipeline,
        "tenant": record.tenant,
        "day": record.day.isoformat(),
        "state": record.state.value,
        "judged_ms": record.judged_ms,
        "ingested": record.ingested,
        "ended": dict(record.ended),
        "found": dict(record.found),
        "read": {name: list(offsets) for name, offsets in record.read.items()},
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode_value(value: bytes) -> DayRecord:
    """The record again; CorruptData if it is none, or of a format that is not known here."""
    try:
        fields: dict[str, Any] = json.loads(value)
        if fields["format"] != FORMAT:
            raise CorruptData(f"a day record of format {fields['format']!r}, where {FORMAT} is known")
        return DayRecord(
            pipeline=fields["pipeline"],
            tenant=fields["tenant"],
            day=date.fromisoformat(fields["day"]),
            state=DayState(fields["state"]),
            judged_ms=fields["judged_ms"],
            ingested=fields["ingested"],
            ended=fields["ended"],
            found=fields["found"],
            read={name: (start, end) for name, (start, end) in fields["read"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise CorruptData(f"not a day record: {failure!r}") from failure


def read_book(cluster: Cluster, pipeline: Pipeline) -> dict[tuple[str, date], DayRecord]:
    """The newest record of each tenant and day; none if no day was ever closed or found open."""
    topic = topic_of(pipeline)
    found = cluster.metadata([topic]).topics.get(topic)
    if found is None:
        return {}
    first = list_offsets(cluster, topic, dict.fromkeys(found.partitions, EARLIEST))
    last = list_offsets(
        cluster, topic, dict.fromkeys(found.partitions, LATEST), isolation=Isolation.READ_COMMITTED
    )
    book: dict[tuple[str, date], DayRecord] = {}
    for partition in found.partitions:
        wanted = OffsetRange(topic=topic, partition=partition, start=first[partition], end=last[partition])
        for chunk in read_range(cluster, wanted, isolation=Isolation.READ_COMMITTED):
            for batch in without_aborted(chunk.batches, chunk.aborted):
                for record in () if batch.is_control else read_records(batch):
                    if record.value is not None:
                        day = decode_value(record.value)
                        book[day.tenant, day.day] = day
    return book


def write_day(cluster: Cluster, pipeline: Pipeline, record: DayRecord) -> None:
    """Makes the record durable; the topic is made for the first one."""
    topic = topic_of(pipeline)
    if topic not in cluster.metadata([topic]).topics:
        with suppress(TopicAlreadyExists):  # another close was first
            create_topic(cluster, topic, partitions=1, configs=COMPACTED)
    Producer(cluster, topic).send({0: [Record(key=encode_key(record), value=encode_value(record))]})
