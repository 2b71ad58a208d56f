"""PySpark looks into packages named pyspark_* for data sources: this one makes format("holdfast") known."""

from holdfast.spark.source import HoldfastDataSource as DefaultSource

__all__ = ["DefaultSource"]
