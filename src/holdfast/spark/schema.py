"""The columns of `format("holdfast")`: those of Spark's own Kafka source."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from holdfast.errors import UsageError

SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)

RANGES: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
    ]
)
"""Of a stream with option `ranges`."""

COLUMNS: Final[tuple[str, ...]] = tuple(SCHEMA.fieldNames())


def select(columns: Iterable[str]) -> StructType:
    """The schema of these columns, in this order."""
    return StructType([SCHEMA[name] for name in columns])


def check_subset(schema: StructType) -> None:
    """Refuses a schema given with `.schema(...)` that is not made of the source's own columns and types."""
    for field in schema.fields:
        if field.name not in COLUMNS or field.dataType != SCHEMA[field.name].dataType:
            raise UsageError(
                f"schema: format holdfast has no column {field.name} {field.dataType.simpleString()}; "
                f"its columns are {SCHEMA.simpleString()}"
            )
