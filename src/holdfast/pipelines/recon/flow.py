"""How messages moved: how long each took from ingest to audit, and how old the oldest was that had still to arrive.

For reports alone: no verdict rests on it. A day with many messages is looked at in part, by a hash of its ids.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from holdfast.client.topics import describe_configs
from holdfast.pipelines.recon.close import Desk
from holdfast.pipelines.recon.day import Verdict
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.looking import pieces_of_day, view_partitions
from holdfast.pipelines.recon.reading import INGESTED, ROW_TYPES, UNREADABLE, read_piece
from holdfast.spark.reconcile import search

STEPS: Final = 240
"""Moments at which the age is told."""
MESSAGES_MAX: Final = 2_000_000
PER_DECADE: Final = 5
"""Bars of the histogram for each power of ten."""
SHARES: Final = (0.5, 0.99, 1.0)


class Moved(NamedTuple):
    """Messages that came in, and arrived, between the same two moments, and took about as long."""

    came: int
    arrived: int | None
    """None: they never did."""
    bar: int | None
    messages: int
    first_ms: int
    """When the first of them came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What a report shows of it."""

    start_ms: int
    step_ms: int
    ages_ms: tuple[int, ...] = ()
    """At each step, from the first on: the age of the oldest message that audit did not have yet."""
    bars: Mapping[int, int] = field(default_factory=dict)
    """Messages by power of ten of their milliseconds, in fifths: bar 15 begins at 1 s. Bar -1 took none at all."""
    shares_ms: tuple[int, ...] = ()
    """What half of them took at most, 99 of 100, and all."""
    one_in: int = 1
    """Every message was looked at, or one of so many."""
    is_stamped: bool = True
    """Whether audit bears the log's own time. If not, its records have the time of the messages they tell of."""


def flow_of_day(desk: Desk, verdict: Verdict) -> Flow:
    """Reads the day that was judged once more, ingest and audit alone."""
    tenant, day = verdict.tenant, verdict.day
    views = view_partitions(desk.cluster, desk.pipeline)
    pieces = [
        piece
        for piece in pieces_of_day(desk.pipeline, views, day, tenant=tenant, tasks=desk.tasks)
        if piece.stage is not Stage.DELIVERED
    ]
    one_in = 1 + verdict.total.ingested // MESSAGES_MAX
    desk.on_progress("ingest and audit side by side, for the report")
    rows = search(
        desk.session, pieces, read_piece, matches=lambda column: column.is_valid(), schema=ROW_TYPES
    )
    moved = movements(rows, one_in).persist()
    try:
        [span] = moved.agg(
            sql.min("came_ms").alias("start"), sql.max(sql.greatest("came_ms", "arrived_ms")).alias("end")
        ).collect()
        if span.start is None:
            return Flow(start_ms=day.start_ms, step_ms=1)
        step_ms = max(1, -(-(span.end - span.start) // STEPS))
        took = sql.percentile_approx(sql.col("arrived_ms") - sql.col("came_ms"), list(SHARES))
        [shares] = moved.agg(took.alias("took")).collect()
        found = [Moved(*row) for row in grouped(moved, span.start, step_ms).collect()]
    finally:
        moved.unpersist()
    return Flow(
        start_ms=span.start,
        step_ms=step_ms,
        ages_ms=ages(found, span.start, step_ms),
        bars=bars(found),
        shares_ms=tuple(shares.took or ()),
        one_in=one_in,
        is_stamped=_is_stamped(desk),
    )


def movements(rows: DataFrame, one_in: int) -> DataFrame:
    """For each message when it came first, and when audit had it first, if ever."""
    ingest = sql.col("stage") == INGESTED
    seen = rows.where(
        (sql.col("stage") < UNREADABLE) & (sql.pmod(sql.xxhash64("identity"), sql.lit(one_in)) == 0)
    )
    return (
        seen.groupBy("identity")
        .agg(
            sql.min(sql.when(ingest, sql.col("arrived_ms"))).alias("came_ms"),
            sql.min(sql.when(~ingest, sql.col("arrived_ms"))).alias("arrived_ms"),
        )
        .where(sql.col("came_ms").isNotNull())
        # A clock that is ahead makes nobody arrive before it came.
        .select("came_ms", sql.greatest("came_ms", "arrived_ms").alias("latest_ms"), "arrived_ms")
        .select(
            "came_ms", sql.when(sql.col("arrived_ms").isNotNull(), sql.col("latest_ms")).alias("arrived_ms")
        )
    )


def grouped(moved: DataFrame, start_ms: int, step_ms: int) -> DataFrame:
    """Messages that look alike in a plot, as `Moved`."""
    took = sql.col("arrived_ms") - sql.col("came_ms")
    bar = sql.when(took > 0, sql.floor(sql.log10(took) * PER_DECADE)).when(took == 0, sql.lit(-1))
    return moved.groupBy(
        sql.floor((sql.col("came_ms") - start_ms) / step_ms).alias("came"),
        sql.floor((sql.col("arrived_ms") - start_ms) / step_ms).alias("arrived"),
        bar.cast("int").alias("bar"),
    ).agg(sql.count("*").alias("messages"), sql.min("came_ms").alias("first_ms"))


def ages(found: Iterable[Moved], start_ms: int, step_ms: int) -> tuple[int, ...]:
    """At each step the age of the oldest message that is on its way there; 0 if none is."""
    oldest: list[int | None] = [None] * (STEPS + 1)
    for each in found:
        last = STEPS if each.arrived is None else min(each.arrived, STEPS)
        for step in range(each.came + 1, last + 1):
            known = oldest[step]
            oldest[step] = each.first_ms if known is None else min(known, each.first_ms)
    return tuple(
        0 if first_ms is None else start_ms + step * step_ms - first_ms
        for step, first_ms in enumerate(oldest)
    )


def bars(found: Iterable[Moved]) -> dict[int, int]:
    """How many messages there are of each bar."""
    sums: dict[int, int] = {}
    for each in found:
        if each.bar is not None:
            sums[each.bar] = sums.get(each.bar, 0) + each.messages
    return dict(sorted(sums.items()))


def _is_stamped(desk: Desk) -> bool:
    configs = {each.name: each.value for each in describe_configs(desk.cluster, desk.pipeline.audit)}
    return configs.get("message.timestamp.type") == "LogAppendTime"
