"""Topics as DataFrames: `spark.read.format("holdfast")`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from holdfast.client.cluster import Cluster
from holdfast.client.reader import OffsetRange
from holdfast.spark.held import find_reading
from holdfast.spark.options import ReadOptions, parse_options
from holdfast.spark.plan import plan
from holdfast.spark.schema import check_subset, select
from holdfast.spark.stored_plan import StoredRange, plan_stored

if TYPE_CHECKING:
    import pyarrow as pa


class HoldfastDataSource(DataSource):
    """What PySpark makes of `.format("holdfast")` and its options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._read_options = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "holdfast"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns`."""
        return select(self._read_options.columns)

    def reader(self, schema: StructType) -> "HoldfastReader":
        """Reads the columns of `schema`, so that `.schema(...)` may choose columns too."""
        check_subset(schema)
        return HoldfastReader(self._read_options, schema)


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
        with Cluster(self._options.bootstrap) as cluster:
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
            with Cluster(options.bootstrap) as cluster:
                yield from read_rows(
                    cluster,
                    partition.offsets,
                    self._schema,
                    isolation=options.isolation,
                    node_id=options.stores.replica,
                )
        # Anything else is PySpark's stand-in when there is nothing to read.
