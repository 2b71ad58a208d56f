"""The streaming queries of a pipeline: the service's, one for each adapter, and the one that keeps fingerprints."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.groups import TopicPartition, commit_group_offsets
from holdfast.errors import HoldfastError
from holdfast.pipelines.config import Adapter, Pipeline, Reader
from holdfast.pipelines.delivery import adapter_id, delivery_of
from holdfast.pipelines.frames import Transform
from holdfast.pipelines.recon.keeping import Keeper
from holdfast.pipelines.recon.reading import topics_of
from holdfast.pipelines.service import BatchReport, Service
from holdfast.pipelines.state import QueryState
from holdfast.pipelines.status import FINGERPRINTS, SERVICE
from holdfast.pipelines.streams import StreamSpec, columns_of, open_stream
from holdfast.pipelines.tally import INGESTED
from holdfast.spark.brevity import told_to_spark
from holdfast.spark.schema import COLUMNS
from holdfast.spark.sink import Sink
from holdfast.spark.write_options import WriteOptions

RECORD: Final = ("key", "value", "timestamp", "headers")
FORWARDED: Final = "forwarded"
STARTS_MAX: Final = 10
KEPT_RECORDS_MAX: Final = 10_000_000
"""Of which a micro-batch has a fingerprint made at most."""

Batch = Callable[[DataFrame, int], None]


class RunningQuery:
    """A query, and what it has done since it was started."""

    def __init__(self, name: str, topic: str, group: str) -> None:
        self.messages: Counter[str] = Counter()
        self.given_up: Counter[str] = Counter()
        self.name = name
        self._topic, self._group = topic, group
        self._query: StreamingQuery | None = None
        self._begin: Callable[[], StreamingQuery] | None = None
        self._starts = 1
        self._batch_id = -1
        self._positions: dict[str, int] = {}
        self._rows = 0
        self._tells_group_at: Endpoint | None = None
        """The cluster whose group has to be told how far the query is, where its source does not tell it."""
        self._close: Callable[[], None] = lambda: None

    def start(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        batch: Batch,
        *,
        starting: str,
        checkpoint: Path,
        trigger: Mapping[str, Any],
        columns: tuple[str, ...] = COLUMNS,
        records_max: int | None = None,
        ranges: bool = False,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Reads committed records of the topics; the group is told how far it is. Ranges are what fingerprints read.

        `close` lets go of what `batch` holds, when the query has ended.
        """
        spec = StreamSpec(
            endpoint=pipeline.endpoint,
            topic=self._topic,
            group=self._group,
            starting=starting,
            records_max=records_max or pipeline.trigger.records_max,
            columns=columns,
            ranges=ranges,
        )
        if pipeline.reader is Reader.KAFKA and not ranges:
            self._tells_group_at = pipeline.endpoint

        def briefly(frame: DataFrame, batch_id: int) -> None:
            with told_to_spark():
                batch(frame, batch_id)

        def begin() -> StreamingQuery:
            frame = open_stream(session, pipeline, spec)
            writer = frame.writeStream.queryName(self.name).foreachBatch(briefly)
            return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()

        self._begin, self._close = begin, close
        self._query = begin()

    def start_again_if_python_was_slow(self) -> bool:
        """Spark gives a new Python process ten seconds, too few on a machine that is busy."""
        failure = self.failure()
        if self.is_active or failure is None or "failed to connect back" not in str(failure):
            return False
        self._starts += 1
        if self._starts > STARTS_MAX:
            return False
        self.start_again()
        return True

    def start_again(self) -> None:
        """From its checkpoint, which has the batch that it failed with."""
        assert self._begin is not None
        self._query = self._begin()

    @property
    def was_well(self) -> bool:
        """Whether it has come to the end of a trigger since it was last started, be it that there was nothing to do."""
        assert self._query is not None
        return bool(self._query.recentProgress)

    def note(self, report: BatchReport) -> None:
        """A batch of the service is done. Spark's own count of it has every reading of a message, and every attempt."""
        self.messages.update(report.messages)
        self._rows += report.messages.get(INGESTED, sum(report.messages.values()))
        self.given_up.update(report.given_up)

    @property
    def is_active(self) -> bool:
        """Whether it goes on."""
        assert self._query is not None
        return bool(self._query.isActive)

    @property
    def is_in_a_batch(self) -> bool:
        """Whether stopping it now would break something off."""
        assert self._query is not None
        return self.is_active and bool(self._query.status["isTriggerActive"])

    def await_end(self) -> None:
        """Until it is not active any more, for whatever reason."""
        assert self._query is not None
        with suppress(StreamingQueryException):
            self._query.awaitTermination()
        self._close()

    def failure(self) -> StreamingQueryException | None:
        """Why it is not active any more."""
        assert self._query is not None
        return self._query.exception()

    def stop(self) -> None:
        """At once."""
        assert self._query is not None
        self._query.stop()
        self._close()

    def look(self) -> QueryState:
        """What is new since the last look counts into the rate, which is that of the time between the two."""
        assert self._query is not None
        rows = 0
        for progress in self._query.recentProgress:
            if progress.batchId > self._batch_id and progress.numInputRows:
                self._batch_id = progress.batchId
                self._positions = _positions(progress.sources[0].endOffset, self._topic)
                rows += progress.numInputRows
        if rows and self._tells_group_at is not None:
            self._tell_group(self._tells_group_at)
        if self.name != SERVICE:
            self.messages[FORWARDED] += rows
            self._rows += rows
        return QueryState(
            name=self.name,
            topic=self._topic,
            group=self._group,
            batch_id=self._batch_id,
            rows=self._rows,
            positions=self._positions,
            messages=dict(self.messages),
            given_up=dict(self.given_up),
        )

    def _tell_group(self, endpoint: Endpoint) -> None:
        """For lag tools alone: if nobody listens now, the next look says more."""
        places = {
            TopicPartition(self._topic, int(partition)): offset
            for partition, offset in self._positions.items()
        }
        with suppress(HoldfastError), Cluster(endpoint, patience_s=0) as cluster:
            commit_group_offsets(cluster, self._group, places)


def service_query(
    session: SparkSession,
    pipeline: Pipeline,
    transform: Transform,
    trigger: Mapping[str, Any],
) -> RunningQuery:
    """Ingest topic → transform → where the delivery mode sends it."""
    query = RunningQuery(SERVICE, pipeline.ingest, pipeline.service_group)
    service = Service(pipeline, transform, delivery_of(pipeline), on_batch=query.note)
    query.start(
        session,
        pipeline,
        service,
        starting=pipeline.starting,
        checkpoint=pipeline.checkpoint / SERVICE,
        trigger=trigger,
        columns=columns_of(pipeline),
    )
    return query


def adapter_query(
    session: SparkSession, pipeline: Pipeline, adapter: Adapter, trigger: Mapping[str, Any]
) -> RunningQuery:
    """A topic of the service → the audit topic, record by record as they are."""
    query = RunningQuery(adapter.name, adapter.topic, adapter.group)
    transactional_id = adapter_id(pipeline, adapter.name)
    sink = Sink(
        WriteOptions(endpoint=pipeline.endpoint, topic=pipeline.audit, transactional_id=transactional_id)
    )
    query.start(
        session,
        pipeline,
        lambda frame, batch_id: sink(frame.select(*RECORD), batch_id),
        starting=adapter.starting,
        checkpoint=pipeline.checkpoint / f"adapter.{adapter.name}",
        trigger=trigger,
    )
    return query


def fingerprint_query(session: SparkSession, pipeline: Pipeline, trigger: Mapping[str, Any]) -> RunningQuery:
    """All topics of the pipeline → their fingerprints."""
    topics = ",".join(topics_of(pipeline))
    query = RunningQuery(FINGERPRINTS, topics, f"{pipeline.name}.{FINGERPRINTS}")
    keeper = Keeper(pipeline, tasks=session.sparkContext.defaultParallelism)
    query.start(
        session,
        pipeline,
        keeper,
        starting="earliest",
        checkpoint=pipeline.checkpoint / FINGERPRINTS,
        trigger=trigger,
        records_max=KEPT_RECORDS_MAX,
        ranges=True,
        close=keeper.close,
    )
    return query


def _positions(end_offset: Any, topic: str) -> dict[str, int]:
    """Of the source's own offsets, as progress reports show them."""
    found = json.loads(end_offset) if isinstance(end_offset, str) else end_offset
    return dict((found or {}).get(topic, {}))
