"""Arrow columns → record batches, without a Python loop over records; the counterpart of `arrow`."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import UsageError
from holdfast.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_STARTS_AT,
    MAGIC,
    TRANSACTIONAL_BIT,
    Codec,
    seal,
)
from holdfast.records.codecs import compress
from holdfast.records.kernel.encoding import DELTA_BYTES_MAX, RowColumns, Slices, encode_rows, measure_rows
from holdfast.records.kernel.murmur import hash_keys

NO_EPOCH = -1
_NOTHING = np.zeros(1, np.uint8)
_NOTHING.flags.writeable = False


class Rows:
    """Columns that are ready to be made into batches, any of their rows in any order."""

    def __init__(
        self, *, key: pa.Array, value: pa.Array, timestamp_ms: pa.Array, headers: pa.Array | None
    ) -> None:
        """`headers` are lists of structs of a name and a value; a null list stands for an empty one."""
        names, values, ends = _headers(headers, len(value))
        self._columns = RowColumns(
            key=slices_of(key),
            value=slices_of(value),
            timestamp=np.ascontiguousarray(timestamp_ms.to_numpy(zero_copy_only=False), np.int64),
            header_ends=ends,
            header_name=names,
            header_value=values,
        )
        self._sizes = np.empty(len(value), np.int64)
        measure_rows(self._columns, self._sizes)

    def cut(self, rows: NDArray[np.int64], *, bytes_max: int) -> Iterator[NDArray[np.int64]]:
        """The rows in pieces that make batches of up to `bytes_max` uncompressed bytes, of one row at least."""
        ends = np.cumsum(self._sizes[rows] + DELTA_BYTES_MAX)
        room = bytes_max - HEADER_BYTES
        first = 0
        while first < len(rows):
            before = ends[first - 1] if first else 0
            end = max(int(np.searchsorted(ends, before + room, "right")), first + 1)
            yield rows[first:end]
            first = end

    def build(
        self,
        rows: NDArray[np.int64],
        *,
        codec: Codec,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool,
    ) -> bytes | bytearray:
        """One whole batch of these rows, in their order."""
        room = int(self._sizes[rows].sum()) + len(rows) * DELTA_BYTES_MAX
        batch = np.empty(HEADER_BYTES + room, np.uint8)
        end, max_timestamp = encode_rows(self._columns, self._sizes, rows, batch, HEADER_BYTES)
        whole = bytearray(batch.data[:end])
        if codec:
            whole[HEADER_BYTES:] = compress(codec, memoryview(whole)[HEADER_BYTES:])
        HEADER.pack_into(
            whole,
            0,
            0,
            len(whole) - LENGTH_STARTS_AT,
            NO_EPOCH,
            MAGIC,
            0,
            codec | (TRANSACTIONAL_BIT if transactional else 0),
            len(rows) - 1,
            int(self._columns.timestamp[rows[0]]),
            int(max_timestamp),
            producer_id,
            producer_epoch,
            base_sequence,
            len(rows),
        )
        seal(whole)
        return whole


def hashes_of_keys(keys: pa.Array) -> pa.Array:
    """Kafka's hash of every key, without its sign; null for a null."""
    hashes = np.empty(len(keys), np.int32)
    hash_keys(slices_of(keys), hashes)
    return pa.array(hashes, mask=np.asarray(keys.is_null())) if keys.null_count else pa.array(hashes)


def slices_of(array: pa.Array) -> Slices:
    """Where the parts of a binary or string array lie, without a copy of their bytes."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    rows = len(array)
    _, offsets, data = array.buffers()
    if rows == 0 or offsets is None:
        return Slices(_NOTHING, np.empty(0, np.int64), np.empty(0, np.int32))
    ends = np.frombuffer(offsets, np.int64 if is_large else np.int32)[array.offset : array.offset + rows + 1]
    lengths = np.diff(ends).astype(np.int32)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = -1
    octets = _NOTHING if data is None or data.size == 0 else np.frombuffer(data, np.uint8)
    octets = octets.view()
    octets.flags.writeable = False
    return Slices(octets, ends[:-1].astype(np.int64), lengths)


def _headers(lists: pa.Array | None, rows: int) -> tuple[Slices, Slices, NDArray[np.int64]]:
    if lists is None or lists.null_count == rows:
        none = Slices(_NOTHING, np.empty(0, np.int64), np.empty(0, np.int32))
        return none, none, np.zeros(rows, np.int64)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    # `flatten` leaves out what null lists may still cover, and looks at the array's own part alone.
    entries = lists.flatten()
    names, values = entries.flatten()
    if names.null_count:
        raise UsageError("column headers: a header has no key; Kafka has no such headers")
    return slices_of(names), slices_of(values), np.cumsum(counts, dtype=np.int64)
