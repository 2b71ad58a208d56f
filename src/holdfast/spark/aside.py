"""What a sink notes of the rows that it writes, and may add to them: the books of a micro-batch, in its one job.

A column that is not a record's goes with the rows to the task that writes them, and is noted there, so that what is
noted is what is written. Rows may be noted that are not written at all. When all is written, records made of the notes
join the transaction.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast.client.groups import TopicPartition
from holdfast.client.producer import partition_of_key
from holdfast.errors import UsageError
from holdfast.records.build import Record
from holdfast.spark.outputs import Outputs

NOTED: Final = "noted"
"""The name of the column."""

Note = Callable[[pa.Array], Any]
"""In a task: what there is to tell of some of the column's values; it is pickled, and so is what it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A record that joins the transaction; its key chooses the partition."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What happens beside the writing of one micro-batch."""

    note: Note
    conclude: Callable[[Sequence[Any]], Iterable[Added]]
    """In the driver, once for each attempt, when everything is written: all notes → records to add."""
    beside: DataFrame | None = None
    """Rows of the column alone that are noted and not written."""


def place_added(added: Iterable[Added], outputs: Outputs) -> Mapping[TopicPartition, list[Record]]:
    """Where they go, as Kafka's clients would have it."""
    counts = dict(outputs.topics)
    placed: dict[TopicPartition, list[Record]] = {}
    for each in added:
        if each.topic not in counts:
            raise UsageError(f"there is no topic {each.topic} among those of the sink")
        place = TopicPartition(each.topic, partition_of_key(each.key, counts[each.topic]))
        record = Record(key=each.key, value=each.value, timestamp_ms=each.timestamp_ms)
        placed.setdefault(place, []).append(record)
    return placed
