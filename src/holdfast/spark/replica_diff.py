"""Compares the replicas of a topic at one moment, as a Spark job; the rule is `rules/equality.py`.

Tasks read the files of one replica each and say of every record what it is called (its key, or its offset where a topic
is not compacted), its offset and a fingerprint. Grouped by name, equal replicas leave nothing behind: only what
differs, and damage, comes to the driver, row by row.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from holdfast.client.reader import OffsetRange
from holdfast.client.readings import PartitionReading, ReplicaPieces
from holdfast.keeper.work import Piece
from holdfast.rules.equality import find_unequal
from holdfast.spark.held import HeldReading
from holdfast.spark.stored_plan import TASK_BYTES, StoredRange, make_pieces

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.spark.examination import Damage

BY_OFFSET, BY_KEY, DAMAGED = 0, 1, 2

_ROWS = "partition int, kind byte, name binary, own long, offset long, tombstone boolean, print long, holders long"
_NAME = ("partition", "kind", "name", "own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key, or a record without one, that is not the same on all replicas."""

    partition: int
    key: bytes | None
    offset: int
    """Of its newest record on any replica."""
    is_delete: bool
    held: Mapping[int, int | None]
    """By store, the offset of the newest record that it has of the key."""
    at_fault: tuple[int, ...]
    """The stores that do not show the newest record."""
    conflict: int | None = None
    """The last offset at which stores hold different records."""
    versions: tuple[tuple[int, ...], ...] = ()
    """There: the stores that hold the same record, together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What one task looks at; `bit` stands for the replica."""

    stored: StoredRange
    bit: int
    by_key: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """What a partition's replicas are held against."""

    stores: tuple[int, ...]
    tombstones_end: int


def compare(session: SparkSession, held: HeldReading) -> "Iterator[Difference | Damage]":
    """Everything in which the replicas of one topic differ, and every damage to them."""
    from holdfast.spark.examination import Damage  # noqa: PLC0415  it loads the kernels

    works = list(_share_out(held))
    if not works:
        return
    rules = {each.partition: _rule(each) for each in held.reading.partitions}
    found = _find_differing(_read(session, works, secrets.randbits(63)), rules).persist()
    try:
        # To count is to have all of it done at once; what is fetched then is little, or is fetched bit by bit.
        found.count()
        for row in found.toLocalIterator():
            if row.kind == DAMAGED:
                yield Damage(**json.loads(bytes(row.name)))
            else:
                yield _difference(row, rules[row.partition])
    finally:
        found.unpersist()


def _difference(row: Any, rule: _Rule) -> Difference:
    newest_on = dict(zip(rule.stores, row.newest_on, strict=False))
    versions: dict[int, list[int]] = {}
    for store, fingerprint in zip(rule.stores, row.conflict_on, strict=False):
        if fingerprint is not None:
            versions.setdefault(fingerprint, []).append(store)
    return Difference(
        partition=row.partition,
        key=None if row.name is None else bytes(row.name),
        offset=row.newest,
        is_delete=row.tombstone,
        held=newest_on,
        at_fault=find_unequal(
            row.newest, newest_on, is_tombstone=row.tombstone, tombstones_end=rule.tombstones_end
        ),
        conflict=row.conflict,
        versions=tuple(map(tuple, versions.values())),
    )


def _rule(reading: PartitionReading) -> _Rule:
    """A tombstone may have gone if the group had let it go when any of the replicas was last rewritten."""
    grants = [segment.tombstones_end for replica in reading.replicas for segment in replica.segments]
    return _Rule(
        stores=tuple(replica.store for replica in reading.replicas), tombstones_end=max(grants, default=0)
    )


def _share_out(held: HeldReading) -> Iterator[_Work]:
    for each in held.reading.partitions:
        whole = OffsetRange(topic=each.topic, partition=each.partition, start=each.start, end=each.end)
        for number, replica in enumerate(each.replicas):
            for stored in _parts(replica, whole, held):
                yield _Work(stored=stored, bit=1 << number, by_key=each.is_compacted)


def _parts(replica: ReplicaPieces, whole: OffsetRange, held: HeldReading) -> Iterator[StoredRange]:
    pieces = list(make_pieces(replica, whole))
    settled_to = replica.segments[-1].end if replica.segments else whole.start
    for start, end in pairwise(_cut_between_files(pieces, whole)):
        found = tuple(piece for piece in pieces if piece.first < end and piece.end > start)
        if found:
            yield StoredRange(
                offsets=OffsetRange(topic=whole.topic, partition=whole.partition, start=start, end=end),
                store=replica.store,
                pieces=found,
                settled_to=settled_to,
                hold=held.hold,
            )


def _cut_between_files(pieces: Sequence[Piece], whole: OffsetRange) -> list[int]:
    """Never within one: the CRC of a segment tells of what those of its batches leave out, to who reads all of it."""
    cuts = [whole.start]
    size_bytes, reached = 0, whole.start
    for piece in pieces:
        # The first extent may begin before the last segment ends.
        first = max(piece.first, reached)
        if size_bytes + piece.length_bytes > TASK_BYTES and cuts[-1] < first < whole.end:
            cuts.append(first)
            size_bytes = 0
        size_bytes += piece.length_bytes
        reached = max(reached, piece.end)
    return [*cuts, whole.end]


def _read(session: SparkSession, works: Sequence[_Work], seed: int) -> DataFrame:
    """A row for every record of every replica, and for every damage."""

    def run_tasks(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from holdfast.spark.replica_rows import describe  # noqa: PLC0415  in the worker alone: it loads the kernels

        for batch in batches:
            for number in batch.column(0).to_pylist():
                work = works[number]
                yield from describe(work.stored, work.bit, by_key=work.by_key, seed=seed)

    return session.range(0, len(works), 1, len(works)).mapInArrow(run_tasks, _ROWS)


def _find_differing(rows: DataFrame, rules: Mapping[int, _Rule]) -> DataFrame:
    """What is left of the rows when names that all replicas agree on are taken away."""
    replicas = range(max(len(rule.stores) for rule in rules.values()))
    # By name first: then neither of the two groupings has to move a row again.
    records = (
        rows.repartition(*_NAME)
        .groupBy(*_NAME, "offset")
        .agg(
            sql.bit_or("holders").alias("holders"),
            sql.bool_or("tombstone").alias("tombstone"),
            (sql.min("print") != sql.max("print")).alias("conflicts"),
            *(
                sql.max(sql.when(_is_on(number), sql.col("print"))).alias(f"print_{number}")
                for number in replicas
            ),
        )
    )
    conflict = sql.when(sql.col("conflicts"), sql.col("offset"))
    names = records.groupBy(*_NAME).agg(
        sql.max("offset").alias("newest"),
        sql.max_by("tombstone", "offset").alias("tombstone"),
        sql.max(conflict).alias("conflict"),
        sql.array(*(sql.max_by(f"print_{number}", conflict) for number in replicas)).alias("conflict_on"),
        sql.array(*(sql.max(sql.when(_is_on(number), sql.col("offset"))) for number in replicas)).alias(
            "newest_on"
        ),
    )
    is_told = (sql.col("kind") == DAMAGED) | sql.col("conflict").isNotNull()
    # Most names are held by everybody, which Spark sees by itself: few are left for Python.
    is_on_all = sql.forall("newest_on", lambda offset: offset.eqNullSafe(sql.col("newest")))
    return names.where(is_told | ~is_on_all).where(is_told | _is_unequal(rules))


def _is_on(number: int) -> Column:
    """Whether the replica of that number holds it."""
    return sql.col("holders").bitwiseAND(1 << number) != 0


def _is_unequal(rules: Mapping[int, _Rule]) -> Column:
    def judge(partition: int, newest: int, is_tombstone: bool, newest_on: list[int | None]) -> bool:
        rule = rules[partition]
        held = dict(zip(rule.stores, newest_on, strict=False))
        return bool(find_unequal(newest, held, is_tombstone=is_tombstone, tombstones_end=rule.tombstones_end))

    told = sql.udf(judge, "boolean", useArrow=False)
    return told("partition", "newest", "tombstone", "newest_on")


def damage_name(damage: "Damage") -> bytes:
    """As a row's name: it is told apart from every other one."""
    fields: dict[str, Any] = asdict(damage)
    return json.dumps(fields).encode()
