"""Ids compared as Spark tasks: fingerprints of what two sides hold, and an exact look where they differ.

Work is cut by where records lie, never by whose they are: a tenant with half of all messages is spread over as many
pieces as its records are, and nothing is shuffled but the ids of cells that differ. A task takes some pieces, runs the
kernel over whole Arrow batches of them and gives back cells, for which it needs no more memory than for those. Which
groups were seen in which piece is kept: the second look reads no piece that cannot hold what it looks for.

What a piece of work is, and how it is read, is the caller's business. A reader gives batches with these columns:

    tenant   string  whose record it is; may be a dictionary
    stage    int8    where it was seen: a number from 0 to 14 that the caller knows the meaning of
    window   int64   when it happened: the start of its window
    identity binary  which message it is
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from holdfast.records.fingerprints import BUCKET_BITS, CELLS_MAX, Fingerprints, Ids, select
from holdfast.records.grouping import number_groups
from holdfast.records.kernel.fingerprint import WORDS, Cells
from holdfast.records.kernel.hashing import make_secret

CELLS_SCHEMA: Final = "piece long, tenant string, stage int, window long, bucket_bits int, cells binary"

Piece = TypeVar("Piece")
_SECRET: Final = make_secret(secrets.randbits(63))

Reader = Callable[[Piece], Iterable[pa.RecordBatch]]


class Group(NamedTuple):
    """What ids are counted by."""

    tenant: str
    stage: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How ids fall into cells: equal on both sides of a comparison."""

    seed: int
    bucket_bits: int = BUCKET_BITS
    cells_max: int = CELLS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Generic[Piece]):
    """The fingerprints of some pieces, and which of these hold which group."""

    cells: Fingerprints[Group]
    pieces: Sequence[Piece]
    holders: Mapping[Group, Sequence[int]]
    """By group, the numbers of the pieces that it was seen in."""

    def holding(self, groups: Iterable[Group]) -> list[Piece]:
        """The pieces that hold any of the groups."""
        found = {number for group in groups for number in self.holders.get(group, ())}
        return [self.pieces[number] for number in sorted(found)]


def fingerprint(
    session: SparkSession,
    pieces: Sequence[Piece],
    reader: Reader[Piece],
    geometry: Geometry,
    *,
    tasks: int | None = None,
) -> Scanned[Piece]:
    """The fingerprints of everything that the pieces hold."""

    def run(number: int, piece: Piece) -> Iterator[pa.RecordBatch]:
        yield encode_cells(fingerprint_batches(reader(piece), geometry), number)

    merged = empty_fingerprints(geometry)
    holders: dict[Group, list[int]] = defaultdict(list)
    for batch in _run(session, pieces, run, CELLS_SCHEMA, tasks).toArrow().to_batches():
        for number, bucket_bits, group, cells in decode_cells(batch):
            merged.merge([(group, cells)], bucket_bits=bucket_bits)
            holders[group].append(number)
    return Scanned(cells=merged, pieces=pieces, holders=holders)


def fingerprint_here(pieces: Sequence[Piece], reader: Reader[Piece], geometry: Geometry) -> Scanned[Piece]:
    """The same in this process: for so little that tasks would cost more than they do."""
    merged = empty_fingerprints(geometry)
    holders: dict[Group, list[int]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        made = fingerprint_batches(reader(piece), geometry)
        merged.merge(made.items(), bucket_bits=made.bucket_bits)
        for group in made.groups:
            holders[group].append(number)
    return Scanned(cells=merged, pieces=pieces, holders=holders)


def drill(
    session: SparkSession,
    pieces: Sequence[Piece],
    reader: Reader[Piece],
    geometry: Geometry,
    *,
    wanted: Mapping[Group, Iterable[int]],
    schema: str,
    tasks: int | None = None,
) -> DataFrame:
    """The rows of wanted groups and buckets, with all columns that the reader gives; their types are `schema`."""
    chosen = {group: tuple(buckets) for group, buckets in wanted.items()}

    def run(_: int, piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in reader(piece):
            groups, codes = group_rows(batch)
            if chosen.keys().isdisjoint(groups):
                continue
            marks = select(
                groups,
                codes,
                ids_of(batch["identity"]),
                wanted=chosen,
                bucket_bits=geometry.bucket_bits,
                seed=geometry.seed,
            )
            if marks.any():
                yield _plain(batch.filter(pa.array(marks)))

    return _run(session, pieces, run, schema, tasks)


def search(
    session: SparkSession,
    pieces: Sequence[Piece],
    reader: Reader[Piece],
    *,
    matches: Callable[[pa.Array], pa.Array],
    schema: str,
    tasks: int | None = None,
) -> DataFrame:
    """The rows whose identity matches, whatever their tenant, stage and window."""

    def run(_: int, piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in reader(piece):
            found = batch.filter(matches(batch["identity"]))
            if found.num_rows:
                yield _plain(found)

    return _run(session, pieces, run, schema, tasks)


def among(identities: Sequence[bytes]) -> Callable[[pa.Array], pa.Array]:
    """Matches these."""
    sought = list(identities)

    def match(column: pa.Array) -> pa.Array:
        return pc.is_in(column, value_set=pa.array(sought, pa.binary()))

    return match


def fingerprint_batches(batches: Iterable[pa.RecordBatch], geometry: Geometry) -> Fingerprints[Group]:
    """What a task does; also for batches that are at hand."""
    made = empty_fingerprints(geometry)
    for batch in batches:
        if batch.num_rows:
            groups, codes = group_rows(batch)
            made.add(groups, codes, ids_of(batch["identity"]))
    return made


def group_rows(batch: pa.RecordBatch) -> tuple[list[Group], NDArray[np.int32]]:
    """The groups of a batch, and for each row the number of its group among them."""
    tenants = batch["tenant"].dictionary_encode()
    stages, windows = np.asarray(batch["stage"]), np.asarray(batch["window"])
    indices = np.asarray(tenants.indices)
    codes, firsts = number_groups(indices, stages, windows, _SECRET)
    names = tenants.dictionary.to_pylist()
    groups = [
        Group(tenant=names[indices[row]], stage=int(stages[row]), window=int(windows[row]))
        for row in firsts.tolist()
    ]
    return groups, codes


def ids_of(identities: pa.Array) -> Ids:
    """The column's own buffers."""
    _, offsets, octets = identities.buffers()
    first = identities.offset
    return Ids(
        octets=np.frombuffer(octets, np.uint8)
        if octets is not None and octets.size
        else np.zeros(1, np.uint8),
        offsets=np.frombuffer(offsets, np.int32)[first : first + len(identities) + 1],
    )


def empty_fingerprints(geometry: Geometry) -> Fingerprints[Group]:
    """Nothing yet."""
    return Fingerprints[Group](
        seed=geometry.seed, bucket_bits=geometry.bucket_bits, cells_max=geometry.cells_max
    )


def encode_cells(made: Fingerprints[Group], number: int) -> pa.RecordBatch:
    """Rows of CELLS_SCHEMA: what a task gives back of the piece with this number."""
    rows = list(made.items())
    return pa.record_batch(
        {
            "piece": pa.repeat(pa.scalar(number, pa.int64()), len(rows)),
            "tenant": pa.array([group.tenant for group, _ in rows], pa.string()),
            "stage": pa.array([group.stage for group, _ in rows], pa.int32()),
            "window": pa.array([group.window for group, _ in rows], pa.int64()),
            "bucket_bits": pa.repeat(pa.scalar(made.bucket_bits, pa.int32()), len(rows)),
            "cells": pa.array([cells.astype("<u8").tobytes() for _, cells in rows], pa.binary()),
        }
    )


def decode_cells(batch: pa.RecordBatch) -> Iterator[tuple[int, int, Group, Cells]]:
    """Piece, bits for buckets, group and cells of each row again."""
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row in rows:
        cells = np.frombuffer(row["cells"], "<u8").astype(np.uint64).reshape(-1, WORDS)
        yield row["piece"], row["bucket_bits"], Group(row["tenant"], row["stage"], row["window"]), cells


def _run(
    session: SparkSession,
    pieces: Sequence[Piece],
    work: Callable[[int, Piece], Iterator[pa.RecordBatch]],
    schema: str,
    tasks: int | None,
) -> DataFrame:
    """So many tasks, or one for each piece; the work's batches are the rows."""
    held = list(pieces)

    def run_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number, held[number])

    count = max(1, min(len(held), tasks or len(held)))
    return session.range(0, len(held), 1, count).mapInArrow(run_tasks, schema)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark takes no dictionaries."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
