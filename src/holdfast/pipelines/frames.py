"""From the rows of the ingest topic to rows with an end state, and to their books: DataFrame to DataFrame.

All of it is in native expressions, but for what stands in JSON: that is read in Python, in whole Arrow batches, as
Spark's own functions make sense of more than is JSON. What the user's transform is given, and has to give back, is
`CONTRACT`.
"""

from collections.abc import Callable, Collection
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType, StructType

from holdfast.errors import UsageError
from holdfast.pipelines.config import EndState, Mode, Pipeline
from holdfast.pipelines.identity import EPOCH_MS, INSTANT, SEPARATOR, Identity, Location, Part
from holdfast.pipelines.json_paths import find_in_json
from holdfast.pipelines.tally import INGESTED, UNKNOWN_TENANT
from holdfast.spark.aside import NOTED
from holdfast.spark.kept_columns import built_once
from holdfast.spark.lineage import passes_through
from holdfast.spark.schema import KEY_HASH

Transform = Callable[[DataFrame], DataFrame]

STATE_HEADER: Final = "holdfast_end_state"
ORIGIN_HEADER: Final = "holdfast_origin"
REASON_HEADER: Final = "holdfast_reason"
OWN_HEADERS: Final = (STATE_HEADER, ORIGIN_HEADER, REASON_HEADER)
UNKNOWN_STATE: Final = "unknown end state "
"""How a reason begins of a message that Holdfast has let fail for it."""

CONTRACT: Final = {
    "id": ("string",),
    "source": ("string",),
    "tenant": ("string",),
    "time": ("timestamp",),
    "origin": ("string",),
    "value": ("binary", "string"),
}
"""The columns that a transform has to keep, whatever it makes of the value, with their types."""

OPTIONAL: Final = {
    "key": ("binary", "string"),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "reason": ("string",),
}
"""Those that it may keep or make."""

FIELDS: Final = ("key", "value", "timestamp", "headers", KEY_HASH)
"""Of a record, but for its topic."""

HEADERS: Final = "array<struct<key:string,value:binary>>"


def with_identity(frame: DataFrame, identity: Identity) -> DataFrame:
    """The rows of a topic with id, source, tenant, time and origin; what a message does not say is null.

    A message that tells no time that can be read has its record's.
    """
    found, said = _identity(identity)
    return frame.select("*", *found).select(*frame.columns, *said)


@built_once
def _identity(identity: Identity) -> tuple[list[Column], list[Column]]:
    """In two steps: Spark would look for a text again wherever it is named."""
    found = [
        _find(identity.id).alias("holdfast_id"),
        (sql.lit("") if identity.source is None else _find(identity.source)).alias("holdfast_source"),
    ]
    single, source = _name(sql.col("holdfast_id")), _name(sql.col("holdfast_source"))
    time = sql.coalesce(_time(identity.time), sql.col("timestamp"), sql.timestamp_millis(sql.lit(0)))
    origin = sql.concat(sql.col("topic"), sql.lit("/"), sql.col("partition"), sql.lit("@"), sql.col("offset"))
    return found, [
        # With a source that cannot be read, an id might be taken for that of another source of the kind.
        sql.when(source.isNotNull(), _said(single)).alias("id"),
        _said(source).alias("source"),
        _said(_find(identity.tenant)).alias("tenant"),
        time.alias("time"),
        origin.alias("origin"),
    ]


def check_contract(schema: StructType, pipeline: Pipeline) -> None:
    """Refuses what a transform gives back if a message could not be told, or its end state not be known."""
    wanted = CONTRACT | {pipeline.column: ("string",)}
    for name, kinds in (wanted | OPTIONAL).items():
        if name in schema.fieldNames():
            found = schema[name].dataType.simpleString()
            if found not in kinds:
                raise UsageError(f"the transform gives back {name} as {found}, not as {' or '.join(kinds)}")
        elif name == pipeline.column:
            raise UsageError(
                f"the transform gives back no column {name!r} with the end state"
                f" ({', '.join(state.value for state in EndState)}); end_states.column may name another"
            )
        elif name in wanted:
            raise UsageError(
                f"the transform gives back no column {name!r}; it has to keep {', '.join(CONTRACT)}"
            )


def end(identified: DataFrame, pipeline: Pipeline, transform: Transform) -> DataFrame:
    """The transform's rows, each in one end state, with the headers that tell it: records but for their topic.

    A message that does not say who it is has failed, and so has one whose end state is not a known one.
    """
    given = transform(identified)
    if not isinstance(given, DataFrame):
        raise UsageError(f"the transform gives back {type(given).__name__}, not a DataFrame")
    check_contract(given.schema, pipeline)
    names = tuple(name for name in given.columns if name != KEY_HASH)
    if passes_through(identified, given, ("key", KEY_HASH)):
        names += (KEY_HASH,)
    stated, records = _ended(names, pipeline.column, pipeline.identity)
    return given.withColumns(stated).select(*records)


@built_once
def _ended(names: tuple[str, ...], column: str, identity: Identity) -> tuple[dict[str, Column], list[Column]]:
    """What is added to the transform's columns, and what is then left of all: the hash, if the key is the same."""
    stated = sql.col(column)
    known = stated.isin(*(state.value for state in EndState))
    whole = sql.col("id").isNotNull() & sql.col("tenant").isNotNull()
    state = sql.when(whole & known, stated).otherwise(EndState.FAILED.value)
    said = sql.col("reason") if "reason" in names else sql.lit(None).cast("string")
    reason = (
        sql.when(sql.col("id").isNull(), "no id")
        .when(sql.col("tenant").isNull(), "no tenant")
        .when(sql.coalesce(known, sql.lit(False)), said)
        .otherwise(sql.concat(sql.lit(UNKNOWN_STATE), sql.coalesce(stated, sql.lit("null"))))
    )
    records = [
        *(_optional(names, name, kind) for name, kind in (("key", "binary"), ("timestamp", "timestamp"))),
        sql.col("value").cast("binary").alias("value"),
        _headers(names, identity).alias("headers"),
        *(sql.col(name) for name in ("id", "source", "tenant", "time")),
        sql.col("holdfast_state").alias("end_state"),
        *(sql.col(name) for name in (KEY_HASH,) if name in names),
    ]
    return {"holdfast_state": state, "holdfast_reason": reason}, records


def route(ended: DataFrame, pipeline: Pipeline, *, window_ms: int | None = None) -> DataFrame:
    """Records with their topics, as the delivery mode has it.

    With the length of a window there is the column `noted` as well, for the books: filled in the last record of each
    message, so that every message is counted once.
    """
    topics = tuple((state.value, topic) for state, topic in pipeline.topics.items())
    fields = tuple(name for name in FIELDS if name in ended.columns)
    if pipeline.mode is Mode.ADAPTER:
        return ended.select(*_routed_once(fields, topics, pipeline.audit, window_ms))
    to, records = _routed(fields, topics, pipeline.audit, window_ms)
    return ended.select("*", to).select(*records)


@built_once
def _routed_once(
    fields: tuple[str, ...], topics: tuple[tuple[str, str], ...], audit: str, window_ms: int | None
) -> list[Column]:
    """Each message is one record: an adapter sees to the other one."""
    to = sql.lit(audit)
    for state, topic in topics:
        to = sql.when(sql.col("end_state") == state, topic).otherwise(to)
    noted = [] if window_ms is None else [_noted(sql.col("end_state"), window_ms).alias(NOTED)]
    return [*map(sql.col, fields), to.alias("topic"), *noted]


@built_once
def _routed(
    fields: tuple[str, ...], topics: tuple[tuple[str, str], ...], audit: str, window_ms: int | None
) -> tuple[Column, list[Column]]:
    """One row for each record, and what is then left of its columns."""
    last = _record(audit, is_last=True)
    to = sql.array(last)
    for state, topic in topics:
        both = sql.array(_record(topic, is_last=False), last)
        to = sql.when(sql.col("end_state") == state, both).otherwise(to)
    records = [*map(sql.col, fields), sql.col("record.topic").alias("topic")]
    if window_ms is not None:
        noted = sql.when(sql.col("record.is_last"), _noted(sql.col("end_state"), window_ms))
        records.append(noted.alias(NOTED))
    return sql.explode(to).alias("record"), records


def _record(topic: str, *, is_last: bool) -> Column:
    return sql.struct(sql.lit(topic).alias("topic"), sql.lit(is_last).alias("is_last"))


def ingested(identified: DataFrame, window_ms: int) -> DataFrame:
    """What goes in, for the books."""
    return identified.select(_ingested(window_ms))


@built_once
def _ingested(window_ms: int) -> Column:
    return _noted(sql.lit(INGESTED), window_ms).alias(NOTED)


def _noted(stage: Column, window_ms: int) -> Column:
    """What `counting` adds up."""
    # A transform that takes a message's time away takes it to 1970, as a message has it that never told one.
    time_ms = sql.coalesce(sql.unix_millis("time"), sql.lit(0))
    return sql.struct(
        sql.coalesce(sql.col("tenant"), sql.lit(UNKNOWN_TENANT)).alias("tenant"),
        (time_ms - sql.pmod(time_ms, sql.lit(window_ms))).alias("window_start_ms"),
        stage.alias("stage"),
        sql.xxhash64("source", "id").alias("hash"),
        sql.coalesce(sql.octet_length("value"), sql.lit(0)).cast("bigint").alias("value_bytes"),
        time_ms.alias("time_ms"),
    )


def _headers(names: Collection[str], identity: Identity) -> Column:
    """The row's own headers, then the identity where they do not tell it, then the end state and where it came from."""
    own = sql.col("headers") if "headers" in names else sql.lit(None).cast(HEADERS)
    kept = sql.filter(sql.coalesce(own, _no_headers()), lambda each: ~each["key"].isin(*OWN_HEADERS))
    texts = {"id": sql.col("id"), "source": sql.col("source"), "tenant": sql.col("tenant")}
    texts["time"] = sql.unix_millis("time").cast("string")
    added = [
        _header(name, sql.when(~sql.exists(kept, _named(name)), texts[column]))
        for column, name in identity.headers.items()
    ]
    added += [
        _header(STATE_HEADER, sql.col("holdfast_state")),
        _header(ORIGIN_HEADER, sql.col("origin")),
        _header(REASON_HEADER, sql.col("holdfast_reason")),
    ]
    return sql.concat(kept, sql.filter(sql.array(*added), lambda each: each["value"].isNotNull())).cast(
        HEADERS
    )


def _no_headers() -> Column:
    return sql.array().cast(HEADERS)


def _named(name: str) -> Callable[[Column], Column]:
    return lambda each: each["key"] == name


def _header(name: str, text: Column) -> Column:
    return sql.struct(sql.lit(name).alias("key"), text.cast("binary").alias("value"))


def _optional(names: Collection[str], name: str, kind: str) -> Column:
    found = sql.col(name) if name in names else sql.lit(None)
    return found.cast(kind).alias(name)


def _find(location: Location) -> Column:
    """The text there; empty for none, null for what cannot be read."""
    if location.part is Part.VALUE:
        return _in_json(location.json_path)
    raw = _last_header(location.header) if location.part is Part.HEADER else sql.col("key")
    return sql.try_validate_utf8(sql.coalesce(raw.cast("string"), sql.lit("")))


def _name(text: Column) -> Column:
    return sql.when(~sql.contains(text, sql.lit(SEPARATOR)), text)


def _said(text: Column) -> Column:
    return sql.nullif(text, sql.lit(""))


def _last_header(name: str) -> Column:
    return sql.try_element_at(sql.filter("headers", _named(name)), sql.lit(-1))["value"]


def _in_json(path: str) -> Column:
    @sql.arrow_udf(StringType())
    def find(values: pa.Array) -> pa.Array:
        return pa.array([find_in_json(value, path) for value in values.to_pylist()], pa.string())

    return find(sql.col("value"))


def _time(location: Location) -> Column:
    if location.part is Part.TIMESTAMP:
        return sql.col("timestamp")
    text = _find(location)
    return sql.when(text.rlike(_whole(INSTANT.pattern)), text.try_cast("timestamp")).when(
        text.rlike(_whole(EPOCH_MS.pattern)), sql.timestamp_millis(text.try_cast("bigint"))
    )


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"
