"""A topic as a stream of committed records, through either of the two sources that a pipeline may read with."""

from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from holdfast.client.endpoint import Endpoint
from holdfast.client.java_names import to_java
from holdfast.client.security import tell_security
from holdfast.errors import UsageError
from holdfast.pipelines.config import Mode, Pipeline, Reader
from holdfast.spark.endpoint_options import tell_endpoint
from holdfast.spark.schema import COLUMNS, KEY_HASH

CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """What of which topic."""

    endpoint: Endpoint
    topic: str
    group: str
    """Told how far the query is, by Holdfast's source; Spark's connector tells no group anything."""
    starting: str
    records_max: int
    columns: tuple[str, ...] = COLUMNS
    ranges: bool = False
    """Offsets to read later in place of records, which only Holdfast's source has."""


def columns_of(pipeline: Pipeline) -> tuple[str, ...]:
    """What a transform is given of each record; rows are sent to those who write them by the hash of the key.

    Spark's connector has no such column, and mode dual has whoever reads a row write it.
    """
    is_hash_of_use = pipeline.reader is not Reader.KAFKA and pipeline.mode is not Mode.DUAL
    return (*COLUMNS, KEY_HASH) if is_hash_of_use else COLUMNS


def open_stream(session: SparkSession, pipeline: Pipeline, spec: StreamSpec) -> DataFrame:
    """The stream; its columns have the same names and types from either source."""
    options = {"startingOffsets": spec.starting, "maxOffsetsPerTrigger": str(spec.records_max)}
    if pipeline.reader is Reader.KAFKA and not spec.ranges:
        return _through_connector(session, pipeline, spec, options)
    own = {
        **tell_endpoint(spec.endpoint),
        "topic": spec.topic,
        "group": spec.group,
        "ranges": str(spec.ranges).lower(),
    }
    if not spec.ranges:
        own["columns"] = ",".join(spec.columns)
    return session.readStream.format("holdfast").options(**own, **options).load()


def _through_connector(
    session: SparkSession, pipeline: Pipeline, spec: StreamSpec, options: dict[str, str]
) -> DataFrame:
    own = {f"kafka.{name}": value for name, value in _secure(pipeline, spec).items()} | {
        "kafka.bootstrap.servers": spec.endpoint.bootstrap,
        "subscribe": spec.topic,
        "includeHeaders": "true",
        # As it comes it shows what was aborted.
        "kafka.isolation.level": "read_committed",
    }
    try:
        return session.readStream.format("kafka").options(**own, **options).load()
    except AnalysisException as failure:
        if "Failed to find data source: kafka" not in str(failure):
            raise
        raise UsageError(
            f"{pipeline.at('reader')}: reader: kafka is Spark's own connector, and its jar is not on the class path:"
            f" start with --conf spark.jars.packages={CONNECTOR}:{session.version}, or leave reader out"
        ) from None


def _secure(pipeline: Pipeline, spec: StreamSpec) -> dict[str, str]:
    try:
        return to_java(tell_security(spec.endpoint.security))
    except UsageError as failure:
        raise UsageError(f"{pipeline.at('reader')}: reader: kafka: {failure}") from None
