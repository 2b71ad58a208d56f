"""What a task says of one replica's records: their names, their offsets and what they hold, in 64 bits."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from holdfast.records.fingerprint import COLUMNS, fingerprint
from holdfast.spark.examination import Damage, examine
from holdfast.spark.replica_diff import BY_KEY, BY_OFFSET, DAMAGED, damage_name
from holdfast.spark.stored_plan import StoredRange

NO_OFFSET = -1
"""A name of its own is only what a record without a key has."""

_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("kind", pa.int8()),
        ("name", pa.binary()),
        ("own", pa.int64()),
        ("offset", pa.int64()),
        ("tombstone", pa.bool_()),
        ("print", pa.int64()),
        ("holders", pa.int64()),
    ]
)


def describe(work: StoredRange, bit: int, *, by_key: bool, seed: int) -> Iterator[pa.RecordBatch]:
    """A row for every record, and for every damage; see `replica_diff`."""
    for found in examine(work, ["offset", "key", *COLUMNS]):
        if isinstance(found, Damage):
            yield _damaged(found)
            continue
        for batch in found.to_batches():
            yield _records(batch, work.offsets.partition, bit, by_key=by_key, seed=seed)


def _records(batch: pa.RecordBatch, partition: int, bit: int, *, by_key: bool, seed: int) -> pa.RecordBatch:
    rows = batch.num_rows
    offsets, keys = batch["offset"], batch["key"]
    has_name = keys.is_valid().to_numpy(zero_copy_only=False) if by_key else np.zeros(rows, np.bool_)
    own = np.where(has_name, NO_OFFSET, offsets.to_numpy())
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(partition, pa.int32()), rows),
            pa.array(np.where(has_name, BY_KEY, BY_OFFSET).astype(np.int8)),
            keys,
            pa.array(own),
            offsets,
            # Without a key there is nothing that a record could delete.
            pa.array(has_name & batch["value"].is_null().to_numpy(zero_copy_only=False)),
            pa.array(fingerprint(batch, seed).view(np.int64)),
            pa.repeat(pa.scalar(bit, pa.int64()), rows),
        ],
        schema=_SCHEMA,
    )


def _damaged(damage: Damage) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "partition": damage.partition,
                "kind": DAMAGED,
                "name": damage_name(damage),
                "own": NO_OFFSET,
                "offset": damage.position,
                "tombstone": False,
                "print": 0,
                "holders": 0,
            }
        ],
        schema=_SCHEMA,
    )
