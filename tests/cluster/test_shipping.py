"""Executors have the Holdfast that the driver runs, and only because it was sent to them."""

import subprocess
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.spark.shipping import ZIP_NAME
from tests.cluster.standalone import WORKERS, SparkCluster


def make_look() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Made here, it is sent as it is; executors do not have this module."""

    def look_around(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import sys

        import holdfast.errors

        main = sys.modules["__main__"].__spec__
        kernels = sys.modules.get("holdfast.records.kernel.fields")
        for batch in batches:
            yield pa.RecordBatch.from_pydict(
                {
                    "holdfast": [holdfast.errors.__file__] * batch.num_rows,
                    "python": [sys.executable] * batch.num_rows,
                    "host": [os.environ["SPARK_LOCAL_IP"]] * batch.num_rows,
                    "daemon": [main.name if main else ""] * batch.num_rows,
                    "is_loaded": [kernels is not None] * batch.num_rows,
                }
            )

    return look_around


def test_the_executors_python_has_no_holdfast(cluster: SparkCluster) -> None:
    """Else nothing in this folder would prove that it is sent."""
    for module, code in (("holdfast", 1), ("numba", 0)):
        done = subprocess.run([cluster.python, "-c", f"import {module}"], capture_output=True, check=False)
        assert done.returncode == code, module


def test_executors_import_what_was_sent(cluster: SparkCluster, spark: SparkSession) -> None:
    """On every worker: from the zip in their own directory, in workers that were forked with the kernels loaded."""
    schema = "holdfast string, python string, host string, daemon string, is_loaded boolean"
    rows = spark.range(0, 16, 1, 16).mapInArrow(make_look(), schema).collect()
    assert {row.host for row in rows} == set(WORKERS.values())
    for row in rows:
        assert f"/{ZIP_NAME}/holdfast/" in row.holdfast
        assert (row.python, row.daemon, row.is_loaded) == (str(cluster.python), "holdfast.spark.daemon", True)
