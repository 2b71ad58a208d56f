"""Topics as DataFrames: `format("holdfast")`, for reading and for writing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast.client.cluster import Cluster
from holdfast.client.reader import OffsetRange
from holdfast.errors import UsageError
from holdfast.spark.columns import check_columns
from holdfast.spark.held import find_reading
from holdfast.spark.options import (
    ReadOptions,
    gives_ranges,
    parse_options,
    parse_stream_options,
    schema_columns,
)
from holdfast.spark.parting import quiet
from holdfast.spark.plan import plan
from holdfast.spark.schema import RANGES, check_subset, select
from holdfast.spark.stored_plan import StoredRange, plan_stored
from holdfast.spark.write_options import Delivery, WriteOptions, parse_write_options
from holdfast.spark.writer import AloneStreamWriter, AloneWriter, ExactStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.spark.stream_reader import HoldfastStreamReader

quiet()


class HoldfastDataSource(DataSource):
    """What PySpark makes of `.format("holdfast")` and its options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))

    @property
    def _read_options(self) -> ReadOptions:
        """Read late: the options of a write are others."""
        return parse_options(self.options)

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "holdfast"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns`."""
        return RANGES if gives_ranges(self.options) else select(schema_columns(self.options))

    def reader(self, schema: StructType) -> "HoldfastReader":
        """Reads the columns of `schema`, so that `.schema(...)` may choose columns too."""
        check_subset(schema)
        return HoldfastReader(self._read_options, schema)

    def streamReader(self, schema: StructType) -> "HoldfastStreamReader":  # noqa: N802
        """Reads the columns of `schema` as a stream."""
        try:
            from holdfast.spark.stream_reader import HoldfastStreamReader  # noqa: PLC0415
        except ImportError as error:
            raise UsageError(f"streams of format holdfast need PySpark 4.2 or newer ({error})") from None

        if not gives_ranges(self.options):
            check_subset(schema)
        return HoldfastStreamReader(parse_stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> AloneWriter:
        """Appends rows to topics."""
        options = self._write_options(schema, overwrite, default=Delivery.AT_LEAST_ONCE)
        if options.delivery is Delivery.EXACTLY_ONCE:
            raise UsageError(
                "option delivery: exactly_once is for streams; a batch write that fails may leave rows behind"
            )
        return AloneWriter(options)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> AloneStreamWriter | ExactStreamWriter:
        """Appends the rows of micro-batches to topics, exactly once unless told otherwise."""
        options = self._write_options(schema, overwrite, default=Delivery.EXACTLY_ONCE)
        if options.delivery is Delivery.AT_LEAST_ONCE:
            return AloneStreamWriter(options)
        return ExactStreamWriter(options)

    def _write_options(self, schema: StructType, overwrite: bool, *, default: Delivery) -> WriteOptions:
        if overwrite:
            raise UsageError("topics are appended to: use mode append, and output mode append or update")
        options = parse_write_options(self.options, default=default)
        check_columns(schema, options)
        return options


@dataclass
class RangePartition(InputPartition):
    """One task's work: offsets to fetch from an agent."""

    offsets: OffsetRange


@dataclass
class StoredPartition(InputPartition):
    """One task's work: pieces to read from a store."""

    work: StoredRange


class HoldfastReader(DataSourceReader):
    """Plans a read in one process and carries it out in others."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Asks once, so that all tasks of a query see the topic at the same moment."""
        held = find_reading(self._options)
        if held is not None:
            return [StoredPartition(work) for work in plan_stored(held, self._options)]
        with Cluster(self._options.endpoint) as cluster:
            return [RangePartition(offsets) for offsets in plan(cluster, self._options)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The partition's records as large Arrow batches."""
        # PySpark imports this module to learn the format's name: Arrow and the kernels can wait for a task.
        if isinstance(partition, StoredPartition):
            from holdfast.spark.stored_rows import read_stored  # noqa: PLC0415

            yield from read_stored(partition.work, self._schema)
        elif isinstance(partition, RangePartition):
            from holdfast.spark.rows import read_rows  # noqa: PLC0415

            options = self._options
            with Cluster(options.endpoint) as cluster:
                yield from read_rows(
                    cluster,
                    partition.offsets,
                    self._schema,
                    isolation=options.isolation,
                    node_id=options.stores.replica,
                )
        # Anything else is PySpark's stand-in when there is nothing to read.
