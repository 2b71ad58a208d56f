"""From the rows of the ingest topic to rows with an end state, and to their books: DataFrame to DataFrame.

All of it is in native expressions. What the user's transform is given, and has to give back, is `CONTRACT`.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from holdfast.errors import UsageError
from holdfast.pipelines.config import EndState, Mode, Pipeline
from holdfast.pipelines.identity import EPOCH_MS, INSTANT, Identity, Location, Part
from holdfast.pipelines.tally import INGESTED, UNKNOWN_TENANT

Transform = Callable[[DataFrame], DataFrame]

STATE_HEADER: Final = "holdfast_end_state"
ORIGIN_HEADER: Final = "holdfast_origin"
REASON_HEADER: Final = "holdfast_reason"
OWN_HEADERS: Final = (STATE_HEADER, ORIGIN_HEADER, REASON_HEADER)

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

HEADERS: Final = "array<struct<key:string,value:binary>>"


def with_identity(frame: DataFrame, identity: Identity) -> DataFrame:
    """The rows of a topic with id, source, tenant, time and origin; what a message does not say is null.

    A message that tells no time that can be read has its record's.
    """
    source = sql.lit(None).cast("string") if identity.source is None else _find(identity.source)
    time = sql.coalesce(_time(identity.time), sql.col("timestamp"), sql.timestamp_millis(sql.lit(0)))
    origin = sql.concat(sql.col("topic"), sql.lit("/"), sql.col("partition"), sql.lit("@"), sql.col("offset"))
    return frame.select(
        "*",
        _find(identity.id).alias("id"),
        source.alias("source"),
        _find(identity.tenant).alias("tenant"),
        time.alias("time"),
        origin.alias("origin"),
    )


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
    stated = sql.col(pipeline.column)
    known = stated.isin(*(state.value for state in EndState))
    whole = sql.col("id").isNotNull() & sql.col("tenant").isNotNull()
    state = sql.when(whole & known, stated).otherwise(EndState.FAILED.value)
    said = sql.col("reason") if "reason" in given.columns else sql.lit(None).cast("string")
    reason = (
        sql.when(sql.col("id").isNull(), "no id")
        .when(sql.col("tenant").isNull(), "no tenant")
        .when(sql.coalesce(known, sql.lit(False)), said)
        .otherwise(sql.concat(sql.lit("unknown end state "), sql.coalesce(stated, sql.lit("null"))))
    )
    stated_rows = given.withColumns({"holdfast_state": state, "holdfast_reason": reason})
    return stated_rows.select(
        *(_optional(given, name, kind) for name, kind in (("key", "binary"), ("timestamp", "timestamp"))),
        sql.col("value").cast("binary").alias("value"),
        _headers(given, pipeline.identity).alias("headers"),
        "id",
        "source",
        "tenant",
        "time",
        sql.col("holdfast_state").alias("end_state"),
    )


def route(ended: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Records with their topics, as the delivery mode has it."""
    to_audit = sql.array(sql.lit(pipeline.audit))
    topics = to_audit
    for state, topic in pipeline.topics.items():
        both = sql.array(sql.lit(topic), sql.lit(pipeline.audit))
        chosen = sql.array(sql.lit(topic)) if pipeline.mode is Mode.ADAPTER else both
        topics = sql.when(sql.col("end_state") == state.value, chosen).otherwise(topics)
    return ended.select("key", "value", "timestamp", "headers", sql.explode(topics).alias("topic"))


def count(identified: DataFrame | None, ended: DataFrame, window_ms: int) -> DataFrame:
    """The sums of both sides by tenant, window and stage; without the first of the end states alone."""
    stages = _countable(ended, sql.col("end_state"), window_ms)
    if identified is not None:
        stages = _countable(identified, sql.lit(INGESTED), window_ms).unionAll(stages)
    return stages.groupBy("tenant", "window_start_ms", "stage").agg(
        sql.count("*").alias("count"),
        # As decimals: the sum of 64-bit hashes leaves 64 bits.
        sql.sum(sql.col("hash").cast("decimal(20,0)")).alias("hash_sum"),
        sql.bit_xor("hash").alias("hash_xor"),
        sql.sum("value_bytes").alias("value_bytes"),
        sql.min("time_ms").alias("time_ms_min"),
        sql.max("time_ms").alias("time_ms_max"),
    )


def _countable(frame: DataFrame, stage: Column, window_ms: int) -> DataFrame:
    time_ms = sql.unix_millis("time")
    return frame.select(
        sql.coalesce(sql.col("tenant"), sql.lit(UNKNOWN_TENANT)).alias("tenant"),
        (time_ms - sql.pmod(time_ms, sql.lit(window_ms))).alias("window_start_ms"),
        stage.alias("stage"),
        sql.xxhash64("source", "id").alias("hash"),
        sql.coalesce(sql.octet_length("value"), sql.lit(0)).cast("bigint").alias("value_bytes"),
        time_ms.alias("time_ms"),
    )


def _headers(given: DataFrame, identity: Identity) -> Column:
    """The row's own headers, then the identity where they do not tell it, then the end state and where it came from."""
    own = sql.col("headers") if "headers" in given.columns else sql.lit(None).cast(HEADERS)
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


def _optional(frame: DataFrame, name: str, kind: str) -> Column:
    found = sql.col(name) if name in frame.columns else sql.lit(None)
    return found.cast(kind).alias(name)


def _find(location: Location) -> Column:
    """The text there; null for none, for an empty one and for what is not UTF-8."""
    if location.part is Part.HEADER:
        raw = sql.try_element_at(sql.filter("headers", _named(location.header)), sql.lit(-1))["value"]
    elif location.part is Part.KEY:
        raw = sql.col("key")
    else:
        raw = sql.col("value")
    text = sql.try_validate_utf8(raw.cast("string"))
    if location.part is Part.VALUE:
        text = sql.get_json_object(text, location.json_path)
    return sql.nullif(text, sql.lit(""))


def _time(location: Location) -> Column:
    if location.part is Part.TIMESTAMP:
        return sql.col("timestamp")
    text = _find(location)
    return sql.when(text.rlike(_whole(INSTANT.pattern)), text.try_cast("timestamp")).when(
        text.rlike(_whole(EPOCH_MS.pattern)), sql.timestamp_millis(text.try_cast("bigint"))
    )


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"
