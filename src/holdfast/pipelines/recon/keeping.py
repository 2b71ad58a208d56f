"""Keeps fingerprints of all topics of a pipeline as their records come: the work of a streaming query.

A micro-batch names offsets; tasks read them, straight into the kernel. What they come to is added to the sums at
hand, and written with the new coverage in one transaction. Coverage decides what is counted, not the number of
the batch: a batch that comes again, from whichever checkpoint, finds its offsets counted. Whoever starts takes the
transactional id first and reads coverage then, so that of two keepers only the newer one can write.
"""

import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.client.cluster import Cluster
from holdfast.client.groups import TopicPartition
from holdfast.client.reader import OffsetRange
from holdfast.client.transactional_producer import TransactionalProducer
from holdfast.errors import HoldfastError, UnknownTopicOrPartition
from holdfast.pipelines.config import DAY_MS, WINDOW_MS, Pipeline
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.recon.kept import (
    COVERAGE_KEY,
    Coverage,
    Follower,
    Spans,
    Sums,
    TopicIds,
    begins_late,
    cover,
    decode_coverage,
    decode_key,
    encode_coverage,
    encode_key,
    encode_sums,
    ensure_topic,
)
from holdfast.pipelines.recon.looking import cut, make_pieces, sum_up
from holdfast.pipelines.recon.reading import Piece, Scope, topics_of
from holdfast.records.build import Record
from holdfast.spark.brevity import was_stopped
from holdfast.spark.reconcile import Geometry, Group, Scanned, Span, empty_fingerprints
from holdfast.spark.traces import cause_line

BUCKET_BITS: Final = 4
"""512 bytes for each tenant, stage and window."""
GROUPS_MAX: Final = 20_000
"""A part with more of them ends, and another one begins."""
KEPT_MS: Final = 14 * DAY_MS
"""Windows that are older are struck out."""
BATCH_RECORDS: Final = 500
ATTEMPTS: Final = 4

_LOG: Final = logging.getLogger(__name__)


def transactional_id(pipeline: Pipeline) -> str:
    """The keeper's."""
    return f"holdfast.{pipeline.name}.fingerprints"


class Keeper:
    """For `foreachBatch` of a stream of ranges."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        tasks: int,
        attempts: int = ATTEMPTS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pipeline = pipeline
        self._tasks = tasks
        self._attempts = attempts
        self._clock = clock
        self._ledger: Ledger | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Counts what is new in the ranges; returns when that is committed."""
        for attempt in range(1, self._attempts + 1):
            try:
                ranges = [
                    OffsetRange(topic=row.topic, partition=row.partition, start=row.start, end=row.end)
                    for row in frame.collect()
                ]
                self.keep(frame.sparkSession, ranges)
                return
            except (HoldfastError, PySparkException, Py4JError) as failure:
                if attempt == self._attempts or was_stopped(failure):
                    raise
                told = cause_line(str(failure))
                _LOG.warning(
                    "fingerprints of batch %d, attempt %d of %d: %s", batch_id, attempt, self._attempts, told
                )

    def keep(self, session: SparkSession, ranges: Iterable[OffsetRange]) -> None:
        """The same for ranges that are at hand."""
        if self._ledger is not None and not self._ledger.is_of_these_topics():
            self.close()
        if self._ledger is None:
            self._ledger = Ledger(self._pipeline)
        try:
            spans, fresh = cover(self._ledger.coverage.spans, ranges)
            if fresh:
                made = self._count(session, fresh)
                self._ledger.write(made, spans, now_ms=int(self._clock() * 1000))
        except BaseException:
            # Whether the transaction was committed is not known: what is in the topic tells.
            self.close()
            raise

    def close(self) -> None:
        """Lets go of the brokers; the next batch begins anew from what is in the topic."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None

    def _count(self, session: SparkSession, fresh: list[OffsetRange]) -> Scanned[Piece]:
        assert self._ledger is not None
        coverage = self._ledger.coverage
        scope = Scope(window_ms=coverage.window_ms, lateness_ms=coverage.lateness_ms)
        geometry = Geometry(seed=coverage.seed, bucket_bits=coverage.bucket_bits)
        pieces = make_pieces(self._pipeline, cut(fresh, self._tasks), scope)
        return sum_up(session, pieces, geometry, tasks=self._tasks)


class Ledger:
    """The topic of fingerprints, held by one keeper: coverage, and the part that it adds to."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._cluster = Cluster(pipeline.endpoint, client_id="holdfast-fingerprints")
        try:
            self._topic = ensure_topic(self._cluster, pipeline)
            self._topics = [*topics_of(pipeline), self._topic]
            self._topic_ids = self._find_topic_ids()
            self._producer = TransactionalProducer(self._cluster, transactional_id(pipeline))
            self._producer.init()
            self._keys: set[bytes] = set()
            self.coverage = self._read()
        except BaseException:
            self._cluster.close()
            raise
        self._begin_part()

    def write(self, made: Scanned[Piece], spans: Spans, *, now_ms: int) -> None:
        """Adds what was counted, in one transaction with what is covered now.

        UnknownTopicOrPartition if a topic is another one by now: which of them was counted is not known.
        """
        if not self.is_of_these_topics():
            raise UnknownTopicOrPartition("a topic was deleted and made anew while its records were counted")
        since_ms = max(self.coverage.since_ms, now_ms - now_ms % DAY_MS - KEPT_MS)
        coverage = replace(
            self.coverage, since_ms=since_ms, spans=spans, whole_since_ms=self._whole_since_ms(spans, now_ms)
        )
        if len(self._cells.groups) > GROUPS_MAX:
            self._begin_part()
        self._cells.merge(made.cells.groups, made.cells.blocks)
        for group, held in made.holders.items():
            for number, span in held.items():
                self._stretch(group, made.pieces[number].offsets, span)
        records = [*self._records(group for group in made.cells.groups if group.window >= since_ms)]
        gone = self._struck_out(since_ms) if since_ms > self.coverage.since_ms else []
        written = {record.key for record in records if record.key is not None}
        records += [Record(key=key, value=None) for key in gone]
        records.append(Record(key=COVERAGE_KEY, value=encode_coverage(coverage)))
        self._producer.begin()
        for batch in _batches(records):
            self._producer.send(self._topic, 0, batch)
        self._producer.commit()
        self.coverage = coverage
        self._keys = (self._keys | written) - set(gone)

    def is_of_these_topics(self) -> bool:
        """Whether all topics, its own among them, are those that it began with, and not others of their names."""
        return self._find_topic_ids() == self._topic_ids

    def close(self) -> None:
        """Lets go of the brokers."""
        self._cluster.close()

    def _read(self) -> Coverage:
        """What is covered; a new life begins where fingerprints were made in another way, or of other topics."""
        covered: bytes | None = None
        for key, value in Follower(self._cluster, self._topic).read(lambda _: True):
            if key == COVERAGE_KEY:
                covered = value
            elif value is None:
                self._keys.discard(key)
            else:
                self._keys.add(key)
        fresh = Coverage(
            life=secrets.token_hex(8),
            seed=secrets.randbits(63),
            bucket_bits=BUCKET_BITS,
            window_ms=WINDOW_MS,
            lateness_ms=LATENESS_MS,
            since_ms=0,
            spans={},
            topic_ids={name: found for name, found in self._topic_ids.items() if name != self._topic},
        )
        if covered is None:
            return fresh
        known = decode_coverage(covered)
        alike = replace(
            fresh,
            life=known.life,
            seed=known.seed,
            since_ms=known.since_ms,
            spans=known.spans,
            whole_since_ms=known.whole_since_ms,
        )
        return known if alike == known else fresh

    def _find_topic_ids(self) -> TopicIds:
        found = self._cluster.metadata(self._topics).topics
        gone = [name for name in self._topics if name not in found]
        if gone:
            raise UnknownTopicOrPartition(f"there is no topic {gone[0]!r} at {self._cluster.bootstrap}")
        return {name: found[name].topic_id for name in self._topics}

    def _whole_since_ms(self, spans: Spans, now_ms: int) -> int:
        """Kept, so that whoever judges windows knows it however often it is started itself."""
        if not begins_late(self.coverage.spans, spans):
            return self.coverage.whole_since_ms
        window_ms = self.coverage.window_ms
        return max(self.coverage.whole_since_ms, now_ms - now_ms % window_ms + window_ms)

    def _begin_part(self) -> None:
        self._part = secrets.token_hex(4)
        self._cells = empty_fingerprints(
            Geometry(seed=self.coverage.seed, bucket_bits=self.coverage.bucket_bits)
        )
        self._spans: dict[Group, dict[TopicPartition, tuple[int, int]]] = defaultdict(dict)

    def _stretch(self, group: Group, found: OffsetRange, span: Span) -> None:
        place = TopicPartition(found.topic, found.partition)
        start, end = self._spans[group].get(place, span)
        self._spans[group][place] = min(start, span[0]), max(end, span[1])

    def _records(self, groups: Iterable[Group]) -> Iterator[Record]:
        for group in groups:
            sums = Sums(
                life=self.coverage.life,
                part=self._part,
                group=group,
                cells=self._cells.cells(group),
                spans=self._spans[group],
            )
            yield Record(key=encode_key(group, self._part), value=encode_sums(sums))

    def _struck_out(self, since_ms: int) -> list[bytes]:
        return [key for key in self._keys if decode_key(key)[0].window < since_ms]


def _batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), BATCH_RECORDS):
        yield records[start : start + BATCH_RECORDS]
