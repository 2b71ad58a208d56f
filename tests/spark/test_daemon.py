"""Workers find the kernels loaded."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def look_at_kernels(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker sees before it has called any kernel itself."""
    import sys

    main = sys.modules["__main__"].__spec__
    loaded = sys.modules.get("holdfast.records.kernel.fields")
    statistics = loaded.scan_records.stats if loaded else None
    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {
                "module": [main.name if main else None] * batch.num_rows,
                "from_cache": [sum(statistics.cache_hits.values()) if statistics else -1] * batch.num_rows,
                "compiled": [sum(statistics.cache_misses.values()) if statistics else -1] * batch.num_rows,
            }
        )


def test_workers_are_forked_with_the_kernels_loaded(spark: SparkSession) -> None:
    """Each worker comes from our daemon, which took the compiled code from the cache on disk."""
    from holdfast.records.warm import warm

    warm()
    frame = spark.range(0, 8, 1, 4).mapInArrow(
        look_at_kernels, "module string, from_cache long, compiled long"
    )
    assert {tuple(row) for row in frame.collect()} == {("holdfast.spark.daemon", 1, 0)}


def test_daemon_forks_without_threads() -> None:
    """Loading and calling the kernels starts no thread and imports nothing that would."""
    program = (
        "import sys, threading, pathlib\n"
        "import holdfast.spark.daemon as daemon\n"
        "daemon.load_kernels()\n"
        "assert not {'pyarrow', 'pandas'} & set(sys.modules), 'heavy imports'\n"
        "assert len(list(pathlib.Path('/proc/self/task').iterdir())) == 1, 'threads'\n"
    )
    # numpy's OpenBLAS keeps threads of its own, and knows how to fork with them.
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
