"""A topic as Parquet files, written by the tasks that read it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.errors import UsageError
from holdfast.spark.table import Snapshot

TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    files: int
    size_bytes: int


def check_directory(directory: Path) -> None:
    """UsageError unless the directory is new or empty: nothing is mixed, and nothing is overwritten."""
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UsageError(f"{directory} is there already, and not an empty directory: name another")
    except OSError as failure:
        raise UsageError(f"cannot write to {directory}: {failure.strerror}") from failure


def export(session: SparkSession, snapshot: Snapshot, topic: str, directory: Path) -> Exported:
    """Write all of the topic; what a failure leaves behind is taken away."""
    check_directory(directory)
    was_there = directory.exists()
    # Moments that every reader of Parquet understands; Spark's own default is a type that Parquet gave up.
    session.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        writer = snapshot.frame(topic).write.mode("append").option("compression", "zstd")
        writer.parquet(directory.resolve().as_uri())
    except BaseException:
        for path in directory.iterdir() if was_there else [directory]:
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
        raise
    files = [path.stat().st_size for path in directory.glob("*.parquet")]
    return Exported(files=len(files), size_bytes=sum(files))
