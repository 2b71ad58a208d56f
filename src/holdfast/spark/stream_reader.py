"""Topics as streams: `spark.readStream.format("holdfast")`.

An offset of the stream is the next offset of each partition, by topic, and the topics' ids; that is what progress
reports show. A topic that is deleted and created anew has offsets from 0 again, and another id.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from holdfast.client.cluster import Cluster, Topic
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.client.log_dirs import bytes_per_offset
from holdfast.client.offsets import LATEST, list_offsets
from holdfast.client.reader import OffsetRange
from holdfast.errors import ConnectionFailed, OffsetOutOfRange, TransientRefusal, UnknownTopicOrPartition
from holdfast.spark.admission import Positions, admit, offsets_for_bytes
from holdfast.spark.options import ReadOptions
from holdfast.spark.plan import find_topics, resolve_starts, split
from holdfast.spark.source import HoldfastReader, RangePartition
from holdfast.spark.standing import Standing, StreamOffset, find_lost, parse_offset, tell_offset, tell_topic

if TYPE_CHECKING:
    import pyarrow as pa

CLIENT_ID: Final = "holdfast-spark"

_LOG: Final = logging.getLogger(__name__)


class HoldfastStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in one process that lives as long as the query; tasks carry them out in others."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._connection: Cluster | None = None
        self._latest: Standing | None = None
        self._gone: set[str] = set()
        """Topics that have been told to be."""
        self._target: Positions | None = None
        self._committed: Positions = {}

    def initialOffset(self) -> StreamOffset:  # noqa: N802
        """Where a new query begins."""
        cluster = self._cluster()
        topics = find_topics(cluster, self._options)
        starts = {
            TopicPartition(topic.name, partition): offset
            for topic in topics
            for partition, offset in resolve_starts(cluster, topic, self._options).items()
        }
        return tell_offset(starts, _ids(topics))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say of offsets and bytes per micro-batch; both are kept to where both are given."""
        if self._options.trigger_offsets_max is not None:
            return ReadMaxRows(self._options.trigger_offsets_max)
        if self._options.trigger_bytes_max is not None:
            return ReadMaxBytes(self._options.trigger_bytes_max)
        return ReadAllAvailable()

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802
        """Where the next micro-batch ends. Everything before its start is done with, and the group is told."""
        stood = parse_offset(start)
        done = stood.positions
        found = self._wait_for_ends(stood)
        self._warn_of_gone(done, found)
        self._latest = found
        self._commit(done)
        ends = found.positions
        starts = _starts(done, ends)
        if self._target is not None:
            ends = {
                place: min(end, max(self._target[place], starts[place]))
                for place, end in ends.items()
                if place in self._target
            }
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limit(starts, ends)
        return tell_offset(done | ends, {**stood.ids, **found.ids})

    def reportLatestOffset(self) -> StreamOffset | None:  # noqa: N802
        """The ends of all partitions when they were last looked at: the backlog is what lies before them."""
        return tell_offset(self._latest.positions, self._latest.ids) if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The ends as they are now are where the query ends."""
        self._target = self._ends().positions

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """The work of a micro-batch, one task for each partition with something new unless options say otherwise."""
        planned = parse_offset(end)
        if self._latest is None:
            # The batch was planned before the query was started anew, and who knows what has happened since.
            self._latest = self._wait_for_ends(planned)
        ends = planned.positions
        starts = _starts(parse_offset(start).positions, ends)
        ranges = [
            OffsetRange(topic=place.topic, partition=place.partition, start=starts[place], end=offset)
            for place, offset in sorted(ends.items())
        ]
        options = self._options
        return [
            RangePartition(found)
            for found in split(ranges, partitions_min=options.partitions_min, records_max=options.records_max)
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The partition's records as large Arrow batches, or what they are, in one row."""
        if self._options.ranges:
            return _name_range(partition)
        return HoldfastReader(self._options, self._schema).read(partition)

    def commit(self, end: StreamOffset) -> None:
        """Everything up to here is done with."""
        self._commit(parse_offset(end).positions)

    def stop(self) -> None:
        """Lets go of the brokers."""
        if self._connection is not None:
            self._connection.close()

    def __getstate__(self) -> dict[str, Any]:
        """For tasks, which read alone."""
        return self.__dict__ | {"_connection": None}

    def _cluster(self) -> Cluster:
        if self._connection is None:
            self._connection = Cluster(self._options.endpoint, client_id=CLIENT_ID)
        return self._connection

    def _wait_for_ends(self, stood: Standing) -> Standing:
        """A query that runs need not end because brokers restart; one that begins is told at once.

        A new leader may not know yet how far a partition reaches: what is missing is lost if it does not come back.
        """
        cluster = self._cluster()
        patience = cluster.patience()
        while True:
            try:
                found = self._ends()
            except (ConnectionFailed, UnknownTopicOrPartition) as failure:
                cluster.forget_leaders()
                patience.wait(failure)
                continue
            lost = find_lost(stood, found)
            if lost is None:
                return found
            try:
                patience.wait(TransientRefusal(lost))
            except TransientRefusal:
                raise OffsetOutOfRange(lost) from None

    def _warn_of_gone(self, done: Positions, found: Standing) -> None:
        """A topic that a pattern fitted may go: it is done with, though the query still knows where it stood."""
        pattern, topics = self._options.pattern, {place.topic for place in done} - found.topics
        gone = {topic for topic in topics if pattern is not None and pattern.fullmatch(topic)}
        for topic in sorted(gone - self._gone):
            end = tell_topic(self._latest.positions, topic) if self._latest else ""
            _LOG.warning(
                "topic %s is gone: it was read up to %s; its last known end is %s",
                topic,
                tell_topic(done, topic),
                end or "not known",
            )
        self._gone = gone

    def _ends(self) -> Standing:
        cluster, isolation = self._cluster(), self._options.isolation
        topics = find_topics(cluster, self._options)
        ends: Positions = {}
        for topic in topics:
            wanted = dict.fromkeys(topic.partitions, LATEST)
            try:
                found = list_offsets(cluster, topic.name, wanted, isolation=isolation)
            except UnknownTopicOrPartition:
                if self._options.pattern is None:
                    raise
                continue  # deleted just now, and the pattern fits topics that are there
            ends |= {TopicPartition(topic.name, partition): end for partition, end in found.items()}
        return Standing(positions=ends, ids=_ids(topics))

    def _limit(self, starts: Positions, ends: Positions) -> Positions:
        offsets_max = self._options.trigger_offsets_max
        if self._options.trigger_bytes_max is not None:
            for_bytes = offsets_for_bytes(
                starts,
                ends,
                bytes_per_offset(self._cluster(), ends),
                bytes_max=self._options.trigger_bytes_max,
            )
            offsets_max = min(offsets_max or for_bytes, for_bytes)
        return ends if offsets_max is None else admit(starts, ends, offsets_max=offsets_max)

    def _commit(self, done: Positions) -> None:
        group = self._options.group
        # A topic that is gone has no offsets to commit.
        done = {
            place: offset
            for place, offset in done.items()
            if self._latest and place in self._latest.positions
        }
        if group is not None and done and done != self._committed:
            commit_group_offsets(self._cluster(), group, done)
            self._committed = done


def _name_range(partition: InputPartition) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa  # noqa: PLC0415  for tasks

    # Anything else is PySpark's stand-in when there is nothing to read.
    if isinstance(partition, RangePartition):
        found = partition.offsets
        yield pa.record_batch(
            {
                "topic": pa.array([found.topic], pa.string()),
                "partition": pa.array([found.partition], pa.int32()),
                "start": pa.array([found.start], pa.int64()),
                "end": pa.array([found.end], pa.int64()),
            }
        )


def _starts(known: Mapping[TopicPartition, int], ends: Iterable[TopicPartition]) -> Positions:
    """Partitions that have come since the query began are read from offset 0, the same in a batch that is made again.

    Nobody has read what is removed from them already: it is lost, and the tasks that are to read it say so.
    """
    return {place: known.get(place, 0) for place in ends}


def _ids(topics: Iterable[Topic]) -> dict[str, str]:
    return {topic.name: str(topic.topic_id) for topic in topics if topic.topic_id is not None}
