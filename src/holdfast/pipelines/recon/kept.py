"""Fingerprints that are kept as the data streams: records of a compacted topic of the pipeline. See `docs/formats.md`.

A record has the sums of one tenant, stage and window, as far as one keeper has added them up: a part. Parts of several
keepers add up. The record `coverage` says which offsets are in the sums, and is written in one transaction with
them: whoever reads both knows exactly what is counted, and what has still to be read.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.offsets import EARLIEST, LATEST, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.client.topics import create_topic
from holdfast.errors import CorruptData, TopicAlreadyExists
from holdfast.pipelines.config import Pipeline
from holdfast.pipelines.recon.reading import name_of, number_named
from holdfast.records.arrow import decode
from holdfast.records.kernel.fingerprint import WORDS, Cells
from holdfast.spark.reconcile import Group
from holdfast.spark.rows import gather

FORMAT: Final = 1
COVERAGE_FORMAT: Final = 2
"""Coverage of format 1 does not say of which topics it is, and joined sources and ids with the separator in them."""
COVERAGE_KEY: Final = b"coverage"
CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": "67108864"}

Spans = Mapping[TopicPartition, tuple[int, int]]
"""By partition, offsets from the one up to but not including the other."""

TopicIds = Mapping[str, UUID | None]
"""By name; None where the brokers are too old to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Which offsets are counted, and how."""

    life: str
    """Sums of another life are worth nothing: they were made with another seed."""
    seed: int
    bucket_bits: int
    window_ms: int
    lateness_ms: int
    since_ms: int
    """Windows that begin earlier are not kept."""
    spans: Spans
    """Every offset of these is counted, once."""
    topic_ids: TopicIds
    """Of all topics of the pipeline: another topic of the same name has other records at these offsets."""
    whole_since_ms: int = 0
    """Windows that begin earlier may have records from before coverage began, which are in no sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What one keeper has added up of a group."""

    life: str
    part: str
    group: Group
    cells: Cells
    spans: Spans
    """All records of the group that are counted here lie in these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the topic holds: coverage, and the sums that were asked for, of its life."""

    coverage: Coverage
    sums: tuple[Sums, ...]


def topic_of(pipeline: Pipeline) -> str:
    """Where fingerprints are kept."""
    return f"{pipeline.name}.fingerprints"


def ensure_topic(cluster: Cluster, pipeline: Pipeline) -> str:
    """Makes the topic for the first keeper."""
    topic = topic_of(pipeline)
    if topic not in cluster.metadata([topic]).topics:
        with suppress(TopicAlreadyExists):  # another keeper was first
            create_topic(cluster, topic, partitions=1, configs=CONFIGS)
    return topic


def read_kept(cluster: Cluster, pipeline: Pipeline, wants: Callable[[Group], bool]) -> Kept | None:
    """The newest of each record; None if nothing was ever kept."""
    topic = topic_of(pipeline)
    if topic not in cluster.metadata([topic]).topics:
        return None
    newest: dict[bytes, bytes | None] = {}
    for key, value in Follower(cluster, topic).read(
        lambda key: key == COVERAGE_KEY or wants(decode_key(key)[0])
    ):
        newest[key] = value
    covered = newest.pop(COVERAGE_KEY, None)
    if covered is None:
        return None
    coverage = decode_coverage(covered)
    sums = (decode_sums(key, value) for key, value in newest.items() if value is not None)
    return Kept(coverage=coverage, sums=tuple(each for each in sums if each.life == coverage.life))


class Follower:
    """Reads a topic of one partition from its beginning, and then what is new."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._position = 0

    def read(self, wants: Callable[[bytes], bool]) -> Iterator[tuple[bytes, bytes | None]]:
        """Committed records whose keys are wanted, in their order."""
        start = max(self._position, list_offsets(self._cluster, self._topic, {0: EARLIEST})[0])
        end = list_offsets(self._cluster, self._topic, {0: LATEST}, isolation=Isolation.READ_COMMITTED)[0]
        if start < end:
            wanted = OffsetRange(topic=self._topic, partition=0, start=start, end=end)
            for stored in gather(read_range(self._cluster, wanted, isolation=Isolation.READ_COMMITTED)):
                table = decode(stored, start=start, end=end, columns=["key", "value"], check_crcs=False)
                values = table["value"]
                for row, key in enumerate(table["key"].to_pylist()):
                    if key is not None and wants(key):
                        yield key, values[row].as_py()
        self._position = max(start, end)


def encode_key(group: Group, part: str) -> bytes:
    """The tenant comes last: it may have slashes of its own."""
    return f"{group.window}/{name_of(group.stage)}/{part}/{group.tenant}".encode()


def decode_key(key: bytes) -> tuple[Group, str]:
    """Group and part again."""
    try:
        window, stage, part, tenant = key.decode().split("/", 3)
        return Group(tenant, number_named(stage), int(window)), part
    except ValueError as failure:
        raise CorruptData(f"not the key of a fingerprint: {key!r}") from failure


def encode_sums(sums: Sums) -> bytes:
    """The value of a record."""
    fields = {
        "format": FORMAT,
        "life": sums.life,
        "cells": base64.b64encode(sums.cells.astype("<u8").tobytes()).decode(),
        "spans": _plain(sums.spans),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_sums(key: bytes, value: bytes) -> Sums:
    """The record again; CorruptData if it is none, or of a format that is not known here."""
    group, part = decode_key(key)
    try:
        fields = _fields(value, FORMAT)
        raw = base64.b64decode(fields["cells"], validate=True)
        return Sums(
            life=fields["life"],
            part=part,
            group=group,
            cells=np.frombuffer(raw, "<u8").astype(np.uint64).reshape(-1, WORDS),
            spans=_spans(fields["spans"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise CorruptData(f"not a fingerprint: {failure!r}") from failure


def encode_coverage(coverage: Coverage) -> bytes:
    """The value of the record under COVERAGE_KEY."""
    fields = {
        "format": COVERAGE_FORMAT,
        "life": coverage.life,
        "seed": str(coverage.seed),
        "bucket_bits": coverage.bucket_bits,
        "window_ms": coverage.window_ms,
        "lateness_ms": coverage.lateness_ms,
        "since_ms": coverage.since_ms,
        "whole_since_ms": coverage.whole_since_ms,
        "topic_ids": {name: str(found) if found else None for name, found in coverage.topic_ids.items()},
        "spans": _plain(coverage.spans),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_coverage(value: bytes) -> Coverage:
    """The record again."""
    try:
        fields = _fields(value, COVERAGE_FORMAT)
        topic_ids = fields["topic_ids"] if fields["format"] > 1 else {}
        return Coverage(
            life=fields["life"],
            seed=int(fields["seed"]),
            bucket_bits=fields["bucket_bits"],
            window_ms=fields["window_ms"],
            lateness_ms=fields["lateness_ms"],
            since_ms=fields["since_ms"],
            # The first keepers did not write it.
            whole_since_ms=fields.get("whole_since_ms", 0),
            topic_ids={name: UUID(found) if found else None for name, found in topic_ids.items()},
            spans=_spans(fields["spans"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise CorruptData(f"not the coverage of fingerprints: {failure!r}") from failure


def cover(
    known: Spans, ranges: Iterable[OffsetRange]
) -> tuple[dict[TopicPartition, tuple[int, int]], list[OffsetRange]]:
    """What is covered once the ranges are counted; and what of them is not counted yet.

    A range that begins behind what is covered leaves a hole, by records that are gone: from there on coverage
    begins anew, and says nothing about what was before.
    """
    covered, fresh = dict(known), []
    for found in sorted(ranges, key=lambda each: (each.topic, each.partition, each.start)):
        place = TopicPartition(found.topic, found.partition)
        first, end = covered.get(place, (found.start, found.start))
        if found.start > end:
            first, end = found.start, found.start
        if found.end > end:
            fresh.append(OffsetRange(topic=found.topic, partition=found.partition, start=end, end=found.end))
            end = found.end
        covered[place] = first, end
    return covered, fresh


def begins_late(known: Spans, covered: Spans) -> bool:
    """Whether coverage begins, or begins anew, behind records that are in no sums, be they there or gone."""
    return any(start > known.get(place, (0, 0))[0] for place, (start, _) in covered.items())


def _fields(value: bytes, format_max: int) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(value)
    if fields["format"] not in range(1, format_max + 1):
        raise CorruptData(f"a fingerprint of format {fields['format']!r}, where {format_max} is known")
    return fields


def _plain(spans: Spans) -> dict[str, dict[str, list[int]]]:
    """By topic and partition."""
    plain: dict[str, dict[str, list[int]]] = {}
    for place, span in sorted(spans.items()):
        plain.setdefault(place.topic, {})[str(place.partition)] = list(span)
    return plain


def _spans(plain: Mapping[str, Mapping[str, list[int]]]) -> dict[TopicPartition, tuple[int, int]]:
    return {
        TopicPartition(topic, int(partition)): (start, end)
        for topic, partitions in plain.items()
        for partition, (start, end) in partitions.items()
    }
