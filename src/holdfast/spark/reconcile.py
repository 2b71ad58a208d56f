"""Ids compared as Spark tasks: fingerprints of what two sides hold, and an exact look where they differ.

Work is cut by where records lie, never by whose they are: a tenant with half of all messages is spread over as many
pieces as its records are, and nothing is shuffled but the ids of cells that differ. A task takes some pieces, sums them
up and gives back cells, for which it needs no more memory than for those. Which groups were seen in which piece, and
where in it, is kept: the second look reads nothing that cannot hold what it looks for.

What a piece of work is, and how it is read, is the caller's business. A reader gives batches with these columns:

    tenant   string  whose record it is; may be a dictionary
    stage    int8    where it was seen: a number from 0 to 14 that the caller knows the meaning of
    window   int64   when it happened: the start of its window
    identity binary  which message it is
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.records.fingerprints import BUCKET_BITS, CELLS_MAX, Fingerprints, Ids, select
from holdfast.records.grouping import number_groups
from holdfast.records.kernel.fingerprint import WORDS, Cells
from holdfast.records.kernel.hashing import make_secret
from holdfast.spark.tasks import Work, run_frame, run_tasks, side_by_side

CELLS_SCHEMA: Final = (
    "tenant string, stage int, window long, bucket_bits int, cells binary,"
    " pieces array<long>, starts array<long>, ends array<long>"
)

Piece = TypeVar("Piece")
_SECRET: Final = make_secret(secrets.randbits(63))

Reader = Callable[[Piece], Iterable[pa.RecordBatch]]
Span = tuple[int, int]
"""Offsets from the first one on, up to the second, exclusive."""


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
class Summed:
    """The fingerprints of one piece, and within which of its offsets the records of each group lie."""

    cells: Fingerprints[Group]
    spans: Mapping[Group, Span]


Summer = Callable[[Piece, Geometry], Summed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned(Generic[Piece]):
    """The fingerprints of some pieces, and which of these hold which group."""

    cells: Fingerprints[Group]
    pieces: Sequence[Piece]
    holders: dict[Group, dict[int, Span]]
    """By group, the numbers of the pieces that it was seen in, and where in these."""

    def holding(self, groups: Iterable[Group]) -> list[tuple[Piece, Span]]:
        """The pieces that hold any of the groups, and within which offsets."""
        found: dict[int, Span] = {}
        for group in groups:
            for number, (start, end) in self.holders.get(group, {}).items():
                known = found.get(number, (start, end))
                found[number] = min(start, known[0]), max(end, known[1])
        return [(self.pieces[number], found[number]) for number in sorted(found)]


def fingerprint(
    session: SparkSession,
    pieces: Sequence[Piece],
    sum_piece: Summer[Piece],
    geometry: Geometry,
    *,
    tasks: int | None = None,
) -> Scanned[Piece]:
    """The fingerprints of everything that the pieces hold."""

    def run(numbers: Iterable[int], threads: int) -> Iterator[pa.RecordBatch]:
        yield encode_cells(fingerprint_here(pieces, sum_piece, geometry, numbers=numbers, threads=threads))

    merged = _nothing(pieces, geometry)
    for batch in run_tasks(session, run, len(pieces), CELLS_SCHEMA, tasks):
        groups, cells, holders = decode_cells(batch)
        merged.cells.merge(groups, cells)
        for group, spans in zip(groups, holders, strict=True):
            merged.holders.setdefault(group, {}).update(spans)
    return merged


def fingerprint_here(
    pieces: Sequence[Piece],
    sum_piece: Summer[Piece],
    geometry: Geometry,
    *,
    numbers: Iterable[int] | None = None,
    threads: int = 1,
) -> Scanned[Piece]:
    """The same in this process, of all pieces or of those with these numbers."""
    merged = _nothing(pieces, geometry)
    chosen = list(range(len(pieces)) if numbers is None else numbers)
    for number, made in zip(
        chosen, side_by_side(lambda number: sum_piece(pieces[number], geometry), chosen, threads), strict=True
    ):
        merged.cells.merge(made.cells.groups, made.cells.blocks)
        for group, span in made.spans.items():
            merged.holders.setdefault(group, {})[number] = span
    return merged


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
    return run_frame(session, _each(pieces, _looked(reader, geometry, wanted)), len(pieces), schema, tasks)


def drill_few(
    session: SparkSession,
    pieces: Sequence[Piece],
    reader: Reader[Piece],
    geometry: Geometry,
    *,
    wanted: Mapping[Group, Iterable[int]],
    schema: str,
    tasks: int | None = None,
) -> pa.Table:
    """The same, for so few rows that they all are brought here."""
    work = _each(pieces, _looked(reader, geometry, wanted))
    found = run_tasks(session, work, len(pieces), schema, tasks)
    return pa.Table.from_batches(found, to_arrow_schema(StructType.fromDDL(schema)))


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

    def run(piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in reader(piece):
            found = batch.filter(matches(batch["identity"]))
            if found.num_rows:
                yield _plain(found)

    return run_frame(session, _each(pieces, run), len(pieces), schema, tasks)


def _looked(
    reader: Reader[Piece], geometry: Geometry, wanted: Mapping[Group, Iterable[int]]
) -> Callable[[Piece], Iterator[pa.RecordBatch]]:
    chosen = {group: tuple(buckets) for group, buckets in wanted.items()}

    def run(piece: Piece) -> Iterator[pa.RecordBatch]:
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

    return run


def _each(pieces: Sequence[Piece], run: Callable[[Piece], Iterator[pa.RecordBatch]]) -> Work:
    """Piece by piece."""
    held = list(pieces)

    def work(numbers: Iterable[int], threads: int) -> Iterator[pa.RecordBatch]:
        for made in side_by_side(lambda number: list(run(held[number])), list(numbers), threads):
            yield from made

    return work


def among(identities: Sequence[bytes]) -> Callable[[pa.Array], pa.Array]:
    """Matches these."""
    sought = list(identities)

    def match(column: pa.Array) -> pa.Array:
        return pc.is_in(column, value_set=pa.array(sought, pa.binary()))

    return match


def fingerprint_batches(batches: Iterable[pa.RecordBatch], geometry: Geometry) -> Fingerprints[Group]:
    """Of batches that are at hand."""
    made = empty_fingerprints(geometry)
    for batch in batches:
        if batch.num_rows:
            add_batch(made, batch)
    return made


def add_batch(made: Fingerprints[Group], batch: pa.RecordBatch) -> list[Group]:
    """Adds the rows of a batch that is not empty; returns their groups."""
    groups, codes = group_rows(batch)
    made.add(groups, codes, ids_of(batch["identity"]))
    return groups


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


def encode_cells(made: Scanned[Piece]) -> pa.RecordBatch:
    """Rows of CELLS_SCHEMA: what a task gives back."""
    groups, cells = made.cells.groups, np.ascontiguousarray(made.cells.blocks, "<u8")
    held = [made.holders[group] for group in groups]
    numbers = pa.list_(pa.int64())
    ends = np.arange(len(groups) + 1) * cells[:1].nbytes
    blocks = pa.Array.from_buffers(
        pa.binary(), len(groups), [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(cells)]
    )
    return pa.record_batch(
        {
            "tenant": pa.array([group.tenant for group in groups], pa.string()),
            "stage": pa.array([group.stage for group in groups], pa.int32()),
            "window": pa.array([group.window for group in groups], pa.int64()),
            "bucket_bits": pa.repeat(pa.scalar(made.cells.bucket_bits, pa.int32()), len(groups)),
            "cells": blocks,
            "pieces": pa.array([list(each) for each in held], numbers),
            "starts": pa.array([[start for start, _ in each.values()] for each in held], numbers),
            "ends": pa.array([[end for _, end in each.values()] for each in held], numbers),
        }
    )


def decode_cells(batch: pa.RecordBatch) -> tuple[list[Group], Cells, list[dict[int, Span]]]:
    """Groups, their cells and their holders again, of the rows of one task."""
    names = ("tenant", "stage", "window", "pieces", "starts", "ends")
    groups: list[Group] = []
    holders: list[dict[int, Span]] = []
    for tenant, stage, window, *held in zip(*(batch[name].to_pylist() for name in names), strict=True):
        pieces, starts, ends = held
        groups.append(Group(tenant, stage, window))
        holders.append(dict(zip(pieces, zip(starts, ends, strict=True), strict=True)))
    if not groups:
        return [], np.zeros((0, 1, WORDS), np.uint64), []
    # Not by way of Python's bytes, which would take longer than all else.
    _, offsets, octets = batch["cells"].buffers()
    first = np.frombuffer(offsets, np.int32)[batch["cells"].offset]
    (bucket_bits,) = pc.unique(batch["bucket_bits"]).to_pylist()
    buckets = 1 << bucket_bits
    cells = np.frombuffer(octets, "<u8", len(groups) * buckets * WORDS, first)
    return groups, cells.reshape(len(groups), buckets, WORDS), holders


def _nothing(pieces: Sequence[Piece], geometry: Geometry) -> Scanned[Piece]:
    return Scanned(cells=empty_fingerprints(geometry), pieces=pieces, holders={})


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark takes no dictionaries."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
