"""Workers find the kernels loaded."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.spark.daemon import FREEZES_MAX, freezing, prefer_installed


def look_at_kernels(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker sees before it has called any kernel itself."""
    import sys

    import pyspark

    main = sys.modules["__main__"].__spec__
    loaded = sys.modules.get("holdfast.records.kernel.fields")
    statistics = loaded.scan_records.stats if loaded else None
    for batch in batches:
        yield pa.RecordBatch.from_pydict(
            {
                "module": [main.name if main else None] * batch.num_rows,
                "from_cache": [sum(statistics.cache_hits.values()) if statistics else -1] * batch.num_rows,
                "is_zipped": [".zip" in pyspark.__file__] * batch.num_rows,
                "compiled": [sum(statistics.cache_misses.values()) if statistics else -1] * batch.num_rows,
            }
        )


def test_workers_are_forked_with_the_kernels_loaded(spark: SparkSession) -> None:
    """Each worker comes from our daemon, which took the compiled code from the cache on disk."""
    from holdfast.records.warm import warm

    warm()
    frame = spark.range(0, 8, 1, 4).mapInArrow(
        look_at_kernels, "module string, from_cache long, is_zipped boolean, compiled long"
    )
    assert {tuple(row) for row in frame.collect()} == {("holdfast.spark.daemon", 1, False, 0)}


def count_what_is_collected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many objects a worker's next collection goes through, and how many it leaves out."""
    import gc
    import os

    for _ in batches:
        seen = {"pid": [os.getpid()], "tracked": [len(gc.get_objects())], "frozen": [gc.get_freeze_count()]}
        yield pa.RecordBatch.from_pydict(seen)


def test_collections_between_tasks_pass_over_what_workers_have_loaded(spark: SparkSession) -> None:
    """From a worker's second task on they go through a small part of what there is."""
    frame = spark.range(0, 1, 1, 1).mapInArrow(count_what_is_collected, "pid long, tracked long, frozen long")
    seen = Counter[int]()
    for _ in range(100):
        task = frame.collect()[0]
        seen[task.pid] += 1
        # Workers take turns.
        if seen[task.pid] == 3:
            break
    assert seen[task.pid] == 3
    assert task.tracked < task.frozen / 10


def test_only_a_workers_first_tasks_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what a task leaves in a circle for a while would stay for ever, task by task."""
    frozen = []
    monkeypatch.setattr("holdfast.spark.daemon.gc.freeze", lambda: frozen.append(True))
    run = freezing(lambda code: code)
    assert [run(code) for code in range(FREEZES_MAX + 5)] == list(range(FREEZES_MAX + 5))
    assert len(frozen) == FREEZES_MAX


def test_a_zip_gives_way_to_the_same_pyspark_alone(tmp_path: Path) -> None:
    """An executor may have only the zip, or another PySpark installed than its Spark's, or a folder of that name."""
    installed, zipped = str(tmp_path), f"{tmp_path}/pyspark/python/lib/pyspark.zip"
    elsewhere = "/opt/spark/pyspark/python/lib/pyspark.zip"
    (tmp_path / "pyspark").mkdir()
    prefer_installed(paths := [zipped, installed])
    assert paths == [zipped, installed]
    (tmp_path / "pyspark" / "__init__.py").touch()
    for before, after in (
        ([zipped, "/a", installed], ["/a", installed]),
        ([zipped, "/a"], [zipped, "/a"]),
        ([elsewhere, installed], [elsewhere, installed]),
        ([installed], [installed]),
    ):
        prefer_installed(paths := list(before))
        assert paths == after


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
