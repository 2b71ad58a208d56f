"""Pieces of the topics of a pipeline, and how a task reads one: from stored batches to rows that can be counted.

Records go from the log straight into Arrow, in the task: nothing passes through the JVM.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.offsets import Isolation
from holdfast.client.reader import OffsetRange
from holdfast.pipelines.config import DAY_MS, EndState, Pipeline
from holdfast.pipelines.frames import ORIGIN_HEADER, STATE_HEADER
from holdfast.pipelines.identity import Identity, Location, Part
from holdfast.pipelines.recon.columns import (
    CANARY_HEADER,
    end_states,
    find_header,
    find_text,
    find_times,
    identities,
    needed_columns,
)
from holdfast.pipelines.recon.law import Stage
from holdfast.pipelines.recon.plain import Rows, find_places, make_bounds, read_plain
from holdfast.pipelines.tally import UNKNOWN_TENANT
from holdfast.records.arrow import scan_chunks, to_batch
from holdfast.records.buffers import ReadableBytes
from holdfast.records.grouping import start_windows
from holdfast.records.kernel.said import Bounds, Places
from holdfast.records.kernel.scanning import Scan, Selection
from holdfast.spark.rows import read_stored
from holdfast.spark.stored_plan import StoredRange
from holdfast.spark.stored_rows import read_chunks

Made = TypeVar("Made")

STATES: Final = tuple(EndState)
INGESTED: Final = 0
UNREADABLE: Final = 1 + 2 * len(STATES)
"""The number of the stage of records that say no end state where they should."""
NAMELESS: Final = UNREADABLE + 1
LATE: Final = UNREADABLE + 2
"""Those of records without an id, and of late ones. They stand there a second time: each of them is to be named."""

ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("stage", pa.int8()),
        pa.field("window", pa.int64()),
        pa.field("identity", pa.binary()),
        pa.field("nameless", pa.bool_()),
        pa.field("time_ms", pa.int64()),
        pa.field("arrived_ms", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)
ROW_TYPES: Final = (
    "tenant string, stage byte, window long, identity binary, nameless boolean, time_ms long, arrived_ms long, "
    "topic string, partition int, offset long"
)
"""The same for Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose messages count, and of when; None for all."""

    window_ms: int
    tenant: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    lateness_ms: int | None = None
    """What arrives so long after the midnight that ends its day is late; None where nobody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some offsets of a partition, and what stands there."""

    endpoint: Endpoint
    offsets: OffsetRange
    stage: Stage
    state: EndState | None
    """That of all records, where the topic is for one end state alone."""
    identity: Identity
    scope: Scope
    stored: StoredRange | None = None
    """The files that hold them, where these are in reach; else they are fetched."""

    @property
    def reads_state(self) -> bool:
        """Whether each record has to say its end state itself."""
        return self.stage is not Stage.INGEST and self.state is None


def number_of(stage: Stage, state: EndState | None) -> int:
    """Stage and end state as one number."""
    if stage is Stage.INGEST:
        return INGESTED
    if state is None:
        return UNREADABLE
    return 1 + STATES.index(state) + (len(STATES) if stage is Stage.DELIVERED else 0)


def stage_of(number: int) -> tuple[Stage, EndState | None]:
    """And back, for those of the law."""
    assert 0 <= number < UNREADABLE
    if number == INGESTED:
        return Stage.INGEST, None
    delivered, state = divmod(number - 1, len(STATES))
    return Stage.DELIVERED if delivered else Stage.AUDIT, STATES[state]


def name_of(number: int) -> str:
    """A stage's number as a word, for what is written down."""
    return _NAMES[number]


def number_named(name: str) -> int:
    """And back; ValueError for none of these words."""
    return _NAMES.index(name)


def topics_of(pipeline: Pipeline) -> dict[str, tuple[Stage, EndState | None]]:
    """Every topic that has to be read, and what it tells."""
    topics: dict[str, tuple[Stage, EndState | None]] = {pipeline.ingest: (Stage.INGEST, None)}
    topics |= {topic: (Stage.DELIVERED, state) for state, topic in pipeline.topics.items()}
    topics[pipeline.audit] = (Stage.AUDIT, None)
    return topics


def carried(identity: Identity) -> Identity:
    """Where the identity stands in what the pipeline writes: in headers."""
    headers = {
        column: Location(part=Part.HEADER, header=header) for column, header in identity.headers.items()
    }
    source = None if identity.source is None else headers["source"]
    return Identity(id=headers["id"], source=source, tenant=headers["tenant"], time=headers["time"])


def read_piece(piece: Piece) -> Iterator[pa.RecordBatch]:
    """The rows of a piece that are in its scope, canaries left out."""
    for made in use_chunks(piece, lambda batches, selection: [*rows_of(batches, selection, piece)]):
        yield from made


def use_chunks(piece: Piece, use: Callable[[ReadableBytes, Selection], Made]) -> Iterator[Made]:
    """What `use` makes of whole batches of a piece, one after the other; it may be used again as in `read_chunks`."""
    if piece.stored is not None:
        yield from read_chunks(piece.stored, use)
        return
    wanted = piece.offsets
    # The reader has checked every CRC: once is enough.
    selection = Selection(start=wanted.start, end=wanted.end, check_crcs=False)
    with Cluster(piece.endpoint) as cluster:
        for stored in read_stored(cluster, wanted, isolation=Isolation.READ_COMMITTED):
            yield use(stored, selection)


def rows_of(batches: ReadableBytes, selection: Selection, piece: Piece) -> Iterator[pa.RecordBatch]:
    """What whole batches hold of a piece."""
    for found in scan_chunks(batches, selection):
        yield from rows_of_scan(found, piece)


def rows_of_scan(found: Scan, piece: Piece) -> Iterator[pa.RecordBatch]:
    """What records are to a piece: by the kernel where they are plain, else column by column."""
    places = places_of(piece)
    plain = None if places is None else read_plain(found, places, bounds_of(piece))
    if plain is None:
        rows = to_rows(to_batch(found, needed_columns(piece.identity)), piece)
    else:
        rows = _plain_rows(plain, piece)
    yield rows
    yield from noted(rows, piece.scope)


def places_of(piece: Piece) -> Places | None:
    """Where the kernels have to look; None if they cannot."""
    return find_places(piece.identity, reads_state=piece.reads_state)


def bounds_of(piece: Piece) -> Bounds:
    """Which records count, for the kernels."""
    state = STATES[0] if piece.reads_state else piece.state
    return make_bounds(
        tenant=piece.scope.tenant,
        start_ms=piece.scope.start_ms,
        end_ms=piece.scope.end_ms,
        window_ms=piece.scope.window_ms,
        stage=number_of(piece.stage, state),
        unreadable=UNREADABLE,
    )


def _plain_rows(found: Rows, piece: Piece) -> pa.RecordBatch:
    said, count = found.said, len(found.said.offset)
    none = pa.py_buffer(np.zeros((count + 7) // 8, np.uint8))
    return pa.RecordBatch.from_arrays(
        [
            pa.DictionaryArray.from_arrays(pa.array(said.tenant), pa.array(found.tenants, pa.string())),
            pa.array(said.stage),
            pa.array(said.window),
            found.identities,
            pa.Array.from_buffers(pa.bool_(), count, [None, none]),
            pa.array(said.time_ms),
            pa.array(said.arrived_ms),
            _constant(pa.array([piece.offsets.topic], pa.string()), count),
            _constant(pa.array([piece.offsets.partition], pa.int32()), count),
            pa.array(said.offset),
        ],
        names=ROW_SCHEMA.names,
    )


def _constant(value: pa.Array, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), value)


def to_rows(batch: pa.RecordBatch, piece: Piece) -> pa.RecordBatch:
    """What of a decoded batch counts, in the columns of ROW_SCHEMA."""
    times = find_times(batch, piece.identity.time)
    tenants = pc.fill_null(find_text(batch, piece.identity.tenant), UNKNOWN_TENANT)
    keep = _in_scope(batch, times, tenants, piece.scope)
    if keep is not None:
        batch, times, tenants = batch.filter(keep), times.filter(keep), tenants.filter(keep)
    named, nameless = identities(batch, piece.identity, lambda rows: _origins(batch, rows, piece))
    count = batch.num_rows
    return pa.RecordBatch.from_arrays(
        [
            tenants,
            _stages(batch, piece),
            pa.array(start_windows(np.asarray(times), piece.scope.window_ms)),
            named,
            nameless,
            times,
            batch["timestamp"].view(pa.int64()),
            pa.repeat(pa.scalar(piece.offsets.topic, pa.string()), count),
            pa.repeat(pa.scalar(piece.offsets.partition, pa.int32()), count),
            batch["offset"],
        ],
        schema=ROW_SCHEMA,
    )


def noted(rows: pa.RecordBatch, scope: Scope) -> Iterator[pa.RecordBatch]:
    """The rows that are to be named whatever becomes of them, once more."""
    if rows["nameless"].true_count:
        yield from _again(rows, rows["nameless"], NAMELESS)
    if scope.lateness_ms is not None:
        days = start_windows(np.asarray(rows["time_ms"]), DAY_MS)
        late = np.asarray(rows["arrived_ms"]) - days >= DAY_MS + scope.lateness_ms
        if late.any():
            yield from _again(rows, pa.array(late), LATE)


def _again(rows: pa.RecordBatch, mask: pa.Array, stage: int) -> Iterator[pa.RecordBatch]:
    found = rows.filter(mask)
    stages = pa.repeat(pa.scalar(stage, pa.int8()), found.num_rows)
    yield found.set_column(ROW_SCHEMA.get_field_index("stage"), ROW_SCHEMA.field("stage"), stages)


def _in_scope(batch: pa.RecordBatch, times: pa.Array, tenants: pa.Array, scope: Scope) -> pa.Array | None:
    """Which rows to keep; None for all."""
    canaries = find_header(batch["headers"], CANARY_HEADER)
    masks = [] if canaries.null_count == len(canaries) else [canaries.is_null()]
    if scope.tenant is not None:
        masks.append(pc.equal(tenants, scope.tenant))
    if scope.start_ms is not None:
        masks.append(pc.greater_equal(times, scope.start_ms))
    if scope.end_ms is not None:
        masks.append(pc.less(times, scope.end_ms))
    if not masks:
        return None
    keep = masks[0]
    for mask in masks[1:]:
        keep = pc.and_(keep, mask)
    return keep


def _stages(batch: pa.RecordBatch, piece: Piece) -> pa.Array:
    if not piece.reads_state:
        return pa.repeat(pa.scalar(number_of(piece.stage, piece.state), pa.int8()), batch.num_rows)
    header = Location(part=Part.HEADER, header=STATE_HEADER)
    first = number_of(piece.stage, STATES[0])
    found = pc.add(end_states(find_text(batch, header)), first)
    return pc.fill_null(found, UNREADABLE).cast(pa.int8())


def _origins(batch: pa.RecordBatch, rows: pa.Array, piece: Piece) -> Iterable[str]:
    """A message without an id is told by where it was ingested; what says nothing of that, by where it stands."""
    said = pa.nulls(len(rows), pa.string())
    if piece.stage is not Stage.INGEST:
        header = Location(part=Part.HEADER, header=ORIGIN_HEADER)
        said = find_text(batch, header).take(rows)
    where = f"{piece.offsets.topic}/{piece.offsets.partition}@"
    offsets = batch["offset"].take(rows)
    return [
        origin if origin is not None else f"{where}{offset}"
        for origin, offset in zip(said.to_pylist(), offsets.to_pylist(), strict=True)
    ]


_NAMES: Final = (
    "ingest",
    *(f"audit.{state.value}" for state in STATES),
    *(f"delivered.{state.value}" for state in STATES),
    "unreadable",
    "nameless",
    "late",
)
