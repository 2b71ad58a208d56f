"""In a task: rows as they come → rows with the partition that they go to, the way `shaping` has it in expressions."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import UsageError
from holdfast.records.encode import hashes_of_keys
from holdfast.spark.outputs import Outputs
from holdfast.spark.write_options import WriteOptions


def place_rows(
    batch: pa.RecordBatch, options: WriteOptions, outputs: Outputs, *, now_ms: int
) -> pa.RecordBatch:
    """The batch with slots, timestamps in milliseconds, and text as bytes."""
    names = batch.schema.names
    rows = batch.num_rows
    key = batch["key"].cast(pa.binary()) if "key" in names else pa.nulls(rows, pa.binary())
    columns = {
        "slot": pa.array(_slots(batch, key, options, outputs)),
        "key": key,
        "value": batch["value"].cast(pa.binary()),
        "timestamp": _milliseconds(batch["timestamp"], now_ms)
        if "timestamp" in names
        else _repeat(now_ms, rows),
    }
    if "headers" in names:
        columns["headers"] = batch["headers"]
    return pa.RecordBatch.from_pydict(columns)


def fill_times(batch: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """For rows that `shaping` has placed: those without a time are given this one."""
    times = batch["timestamp"]
    if not times.null_count:
        return batch
    index = batch.schema.get_field_index("timestamp")
    return batch.set_column(index, "timestamp", pc.fill_null(times, now_ms))


def _milliseconds(times: pa.Array, now_ms: int) -> pa.Array:
    # Rounded down also before 1970, as Spark's unix_millis does it; a cast would round towards zero.
    whole = pc.floor_temporal(times, unit="millisecond")
    return pc.fill_null(whole.cast(pa.timestamp("ms", times.type.tz)).cast(pa.int64()), now_ms)


def _repeat(number: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int64()), rows)


def _slots(
    batch: pa.RecordBatch, key: pa.Array, options: WriteOptions, outputs: Outputs
) -> NDArray[np.int64]:
    first, count = _topics(batch, options, outputs)
    spread = np.arange(batch.num_rows, dtype=np.int64) % count
    if key.null_count == batch.num_rows:
        chosen = spread
    else:
        hashes = hashes_of_keys(key).fill_null(0).to_numpy(zero_copy_only=False)
        chosen = np.where(np.asarray(key.is_null()), spread, hashes % count)
    if "partition" in batch.schema.names:
        chosen = _given(batch, chosen, count, options)
    return first + chosen


def _topics(
    batch: pa.RecordBatch, options: WriteOptions, outputs: Outputs
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first slot and the number of partitions of each row's topic."""
    firsts, counts = outputs.first_slots, dict(outputs.topics)
    if options.topic is not None:
        both = np.array([firsts[options.topic], counts[options.topic]], np.int64)
        first, count = np.broadcast_to(both[:, None], (2, batch.num_rows))
        return first, count
    named = batch["topic"].dictionary_encode()
    topics = named.dictionary.to_pylist()
    if named.null_count or any(topic not in counts for topic in topics):
        unknown = next((topic for topic in topics if topic not in counts), None)
        raise UsageError(f"column topic: there is no topic {unknown or 'null'}")
    of_row = named.indices.to_numpy(zero_copy_only=False)
    return (
        np.array([firsts[topic] for topic in topics], np.int64)[of_row],
        np.array([counts[topic] for topic in topics], np.int64)[of_row],
    )


def _given(
    batch: pa.RecordBatch, chosen: NDArray[np.int64], count: NDArray[np.int64], options: WriteOptions
) -> NDArray[np.int64]:
    partitions = batch["partition"]
    wanted = pc.fill_null(partitions, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    outside = (wanted < 0) | (wanted >= count)
    if outside.any():
        row = int(np.argmax(outside))
        topic = options.topic or batch["topic"][row]
        raise UsageError(f"column partition: {topic} has no partition {wanted[row]}")
    return np.where(np.asarray(partitions.is_null()), chosen, wanted)
