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
KEY_HASH: Final = "keyHash"
"""What Kafka's clients choose a partition by, without its sign: for those who ask for the column by its name."""

_ON_REQUEST: Final = StructType([*SCHEMA.fields, StructField(KEY_HASH, IntegerType())])


def select(columns: Iterable[str]) -> StructType:
    """The schema of these columns, in this order."""
    return StructType([_ON_REQUEST[name] for name in columns])


def is_column(name: str) -> bool:
    """Whether the source has it."""
    return name in _ON_REQUEST.fieldNames()


def check_subset(schema: StructType) -> None:
    """Refuses a schema given with `.schema(...)` that is not made of the source's own columns and types."""
    for field in schema.fields:
        if not is_column(field.name) or field.dataType != _ON_REQUEST[field.name].dataType:
            raise UsageError(
                f"schema: format holdfast has no column {field.name} {field.dataType.simpleString()}; "
                f"its columns are {_ON_REQUEST.simpleString()}"
            )
