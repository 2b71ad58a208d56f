"""Ids compared as Spark tasks: fingerprints of what two sides hold, and an exact look where they differ.

Work is cut by where records lie, never by whose they are: a tenant with half of all messages is spread over as many
tasks as its records are, and nothing is shuffled but the ids of cells that differ. A task runs the kernel over whole
Arrow batches and gives back cells, for which it needs no more memory than for those.

What a piece of work is, and how it is read, is the caller's business. A reader gives batches with these columns:

    tenant   string  whose record it is; may be a dictionary
    stage    int8    where it was seen: a number from 0 to 14 that the caller knows the meaning of
    window   int64   when it happened: the start of its window
    identity binary  which message it is
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from holdfast.records.fingerprints import BUCKET_BITS, CELLS_MAX, Fingerprints, Ids, select
from holdfast.records.kernel.fingerprint import WORDS

CELLS_SCHEMA: Final = "tenant string, stage int, window long, bucket_bits int, cells binary"
TENANTS_MAX: Final = 1 << 20
"""In one batch."""

_STAGE_BITS: Final = 4
_TENANT_BITS: Final = 20
_WINDOW_BITS: Final = 39

Piece = TypeVar("Piece")
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


def fingerprint(
    session: SparkSession, pieces: Sequence[Piece], reader: Reader[Piece], geometry: Geometry
) -> Fingerprints[Group]:
    """The fingerprints of everything that the pieces hold; a task for each."""

    def run(piece: Piece) -> Iterator[pa.RecordBatch]:
        yield _encode(fingerprint_batches(reader(piece), geometry))

    merged = _empty(geometry)
    for batch in _run(session, pieces, run, CELLS_SCHEMA).toArrow().to_batches():
        for bucket_bits, group, cells in _decode(batch):
            merged.merge([(group, cells)], bucket_bits=bucket_bits)
    return merged


def drill(
    session: SparkSession,
    pieces: Sequence[Piece],
    reader: Reader[Piece],
    geometry: Geometry,
    *,
    wanted: Mapping[Group, Iterable[int]],
    schema: str,
) -> DataFrame:
    """The rows of wanted groups and buckets, with all columns that the reader gives; their types are `schema`."""
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

    return _run(session, pieces, run, schema)


def search(
    session: SparkSession,
    pieces: Sequence[Piece],
    reader: Reader[Piece],
    *,
    matches: Callable[[pa.Array], pa.Array],
    schema: str,
) -> DataFrame:
    """The rows whose identity matches, whatever their tenant, stage and window."""

    def run(piece: Piece) -> Iterator[pa.RecordBatch]:
        for batch in reader(piece):
            found = batch.filter(matches(batch["identity"]))
            if found.num_rows:
                yield _plain(found)

    return _run(session, pieces, run, schema)


def among(identities: Sequence[bytes]) -> Callable[[pa.Array], pa.Array]:
    """Matches these."""
    sought = list(identities)

    def match(column: pa.Array) -> pa.Array:
        return pc.is_in(column, value_set=pa.array(sought, pa.binary()))

    return match


def fingerprint_batches(batches: Iterable[pa.RecordBatch], geometry: Geometry) -> Fingerprints[Group]:
    """What a task does; also for batches that are at hand."""
    made = _empty(geometry)
    for batch in batches:
        if batch.num_rows:
            groups, codes = group_rows(batch)
            made.add(groups, codes, ids_of(batch["identity"]))
    return made


def group_rows(batch: pa.RecordBatch) -> tuple[list[Group], NDArray[np.int32]]:
    """The groups of a batch, and for each row the number of its group among them."""
    tenants = batch["tenant"].dictionary_encode()
    assert len(tenants.dictionary) <= TENANTS_MAX
    windows = np.asarray(batch["window"])
    base = int(windows.min()) if len(windows) else 0
    # 39 bits of milliseconds are 17 years: only clocks that are far off lie further apart.
    if len(windows) and int(windows.max()) - base >= 1 << _WINDOW_BITS:
        return _group_slowly(batch)
    keys = (windows - base) << (_TENANT_BITS + _STAGE_BITS)
    keys |= np.asarray(tenants.indices).astype(np.int64) << _STAGE_BITS
    keys |= np.asarray(batch["stage"])
    encoded = pa.array(keys).dictionary_encode()
    names = tenants.dictionary.to_pylist()
    groups = [
        Group(
            tenant=names[key >> _STAGE_BITS & TENANTS_MAX - 1],
            stage=key & (1 << _STAGE_BITS) - 1,
            window=base + (key >> _TENANT_BITS + _STAGE_BITS),
        )
        for key in encoded.dictionary.to_pylist()
    ]
    return groups, np.asarray(encoded.indices)


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


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark takes no dictionaries."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _group_slowly(batch: pa.RecordBatch) -> tuple[list[Group], NDArray[np.int32]]:
    numbers: dict[Group, int] = {}
    rows = zip(
        batch["tenant"].to_pylist(), batch["stage"].to_pylist(), batch["window"].to_pylist(), strict=True
    )
    codes = [numbers.setdefault(Group(*row), len(numbers)) for row in rows]
    return list(numbers), np.array(codes, np.int32)


def _run(
    session: SparkSession,
    pieces: Sequence[Piece],
    work: Callable[[Piece], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """A task for each piece; the work's batches are the rows."""
    held = list(pieces)

    def run_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(held[number])

    count = max(1, len(held))
    return session.range(0, len(held), 1, count).mapInArrow(run_tasks, schema)


def _empty(geometry: Geometry) -> Fingerprints[Group]:
    return Fingerprints[Group](
        seed=geometry.seed, bucket_bits=geometry.bucket_bits, cells_max=geometry.cells_max
    )


def _encode(made: Fingerprints[Group]) -> pa.RecordBatch:
    rows = list(made.items())
    return pa.record_batch(
        {
            "tenant": pa.array([group.tenant for group, _ in rows], pa.string()),
            "stage": pa.array([group.stage for group, _ in rows], pa.int32()),
            "window": pa.array([group.window for group, _ in rows], pa.int64()),
            "bucket_bits": pa.array([made.bucket_bits] * len(rows), pa.int32()),
            "cells": pa.array([cells.astype("<u8").tobytes() for _, cells in rows], pa.binary()),
        }
    )


def _decode(batch: pa.RecordBatch) -> Iterator[tuple[int, Group, NDArray[np.uint64]]]:
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row in rows:
        cells = np.frombuffer(row["cells"], "<u8").astype(np.uint64).reshape(-1, WORDS)
        yield row["bucket_bits"], Group(row["tenant"], row["stage"], row["window"]), cells
