"""What a DataFrame may hold that is written to topics."""

from collections.abc import Collection
from typing import Final

from pyspark.sql.types import StructType

from holdfast.errors import UsageError
from holdfast.spark.write_options import WriteOptions

COLUMNS: Final = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns of a record, those of Spark's Kafka sink and the timestamp, with their types."""


def check_columns(schema: StructType, options: WriteOptions, *, beside: Collection[str] = ()) -> None:
    """Refuses columns that are not a record's, nor meant to go beside it, and rows that would not know their topic."""
    for name in schema.fieldNames():
        if name in beside:
            continue
        kinds = COLUMNS.get(name)
        if kinds is None:
            raise UsageError(f"column {name}: a record has only {', '.join(COLUMNS)}; select those")
        found = schema[name].dataType.simpleString()
        if found not in kinds:
            raise UsageError(f"column {name} is {found}, not {' or '.join(kinds)}")
    if "value" not in schema.fieldNames():
        raise UsageError("column value is missing: a record has a value, if only null")
    if options.topic is None and "topic" not in schema.fieldNames():
        raise UsageError("option topic is missing, and there is no column topic")
