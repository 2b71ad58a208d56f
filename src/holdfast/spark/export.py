"""A topic as Parquet files, written by the tasks that read it."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.errors import QueryFailed, UsageError
from holdfast.spark.table import Snapshot

TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    files: int
    size_bytes: int


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """The directory, absolute and empty; what a failure in the block leaves behind is taken away.

    UsageError unless it is new or empty, and can be written to: nothing is mixed, and nothing is overwritten.
    """
    try:
        whole = directory.resolve()
        str(whole).encode()
        if whole.exists() and (not whole.is_dir() or any(whole.iterdir())):
            raise UsageError(f"{directory} is there already, and not an empty directory: name another")
        absent = [path for path in (whole, *whole.parents) if not path.exists()]
    except UnicodeEncodeError as failure:
        raise UsageError(f"{str(directory)!r} is no text: a byte of it is not UTF-8") from failure
    except OSError as failure:
        raise _refusal(directory, failure) from failure
    try:
        _make(whole)
        yield whole
    except BaseException:
        _remove(whole, absent)
        raise


def export(session: SparkSession, snapshot: Snapshot, topic: str, directory: Path) -> Exported:
    """Write all of the topic to a directory that `new_directory` gave."""
    # Moments that every reader of Parquet understands; Spark's own default is a type that Parquet gave up.
    session.conf.set(TIMESTAMPS, "TIMESTAMP_MICROS")
    writer = snapshot.frame(topic).write.mode("append").option("compression", "zstd")
    # Hadoop takes what follows the scheme as it stands: what as_uri() escapes would stay escaped.
    writer.parquet(f"file://{directory}")
    files = [path.stat().st_size for path in directory.glob("*.parquet")]
    if not files:
        # Of a topic without records there is a file, too.
        raise QueryFailed(
            f"Spark has written no Parquet file that is seen in {directory}: "
            "its machines have to share the directory, and their Java has to know the characters of its name"
        )
    return Exported(files=len(files), size_bytes=sum(files))


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass  # that it can be made is all that is asked
    except OSError as failure:
        raise _refusal(directory, failure) from failure


def _remove(whole: Path, absent: Sequence[Path]) -> None:
    """What was made, and no more: of the directories above, those in which nobody else has put something."""
    # The block's failure is the one to tell.
    with suppress(OSError):
        for path in whole.iterdir():
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
    with suppress(OSError):
        for path in absent:
            with suppress(FileNotFoundError):
                path.rmdir()


def _refusal(directory: Path, failure: OSError) -> UsageError:
    return UsageError(f"cannot write to {directory}: {failure.strerror}")
