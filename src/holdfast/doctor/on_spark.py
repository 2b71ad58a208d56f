"""Fingerprints of large partitions as a Spark job: a task for each replica and stretch of offsets.

What comes to the driver is a number for each range. A task that fails for a reason of ours says so in a row: whether a
replica can be read is a matter of the report, not of the job.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from holdfast.client.cluster import Cluster
from holdfast.client.endpoint import Endpoint
from holdfast.client.groups import TopicPartition
from holdfast.doctor.compare import Replica
from holdfast.doctor.live import BrokerSource, Meter
from holdfast.doctor.ranges import Prints
from holdfast.doctor.source import Source
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CLIENT_ID: Final = "holdfast-doctor"
TASK_OFFSETS: Final = 1 << 20
"""Some seconds' work, and many ranges."""
_STABLE: Final = -1
"""In place of a range: how far the replica could be read."""
_ROWS: Final = "replica int, range long, print long, failure string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How tasks come to the brokers, and how fast all of them together may read."""

    endpoint: Endpoint
    bytes_per_second_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One task's."""

    replica: int
    start: int
    end: int


class SparkPrinter:
    """Implements `ranges.PrintAll` for one partition."""

    def __init__(
        self,
        session: "SparkSession",
        reach: Reach,
        place: TopicPartition,
        *,
        task_offsets: int = TASK_OFFSETS,
    ) -> None:
        self._session = session
        self._reach = reach
        self._place = place
        self._task_offsets = task_offsets

    def __call__(
        self, sources: Sequence[Source], start: int, end: int, *, size: int
    ) -> Mapping[Replica, Prints | str]:
        """One job for all of them."""
        names = [source.name for source in sources if isinstance(source.name, int)]
        whole = end // size * size
        works = [
            _Work(replica=name, start=first, end=last)
            for first, last in _stretches(
                start, end // size * size, max(1, self._task_offsets // size) * size
            )
            for name in names
        ]
        rows = self._run(works, size).collect()
        found: dict[Replica, Prints | str] = {}
        for name in names:
            mine = [row for row in rows if row.replica == name]
            failures = [row.failure for row in mine if row.failure is not None]
            if failures:
                found[name] = failures[0]
                continue
            found[name] = Prints(
                end=whole,
                stable=min(row.print for row in mine if row.range == _STABLE),
                by_range={row.range: row.print for row in mine if row.range != _STABLE},
            )
        return found

    def _run(self, works: Sequence[_Work], size: int) -> "DataFrame":
        place, reach, seed = self._place, self._share(len(works)), secrets.randbits(63)

        def run_tasks(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield _take(works[number], place, reach, size, seed)

        return self._session.range(0, len(works), 1, len(works)).mapInArrow(run_tasks, _ROWS)

    def _share(self, tasks: int) -> Reach:
        """What is allowed to all is shared by those that run at a time, as far as one can tell."""
        if self._reach.bytes_per_second_max is None:
            return self._reach
        context = getattr(self._session, "_sc", None)  # there is none under Spark Connect
        at_a_time = tasks if context is None else min(tasks, context.defaultParallelism)
        return replace(
            self._reach, bytes_per_second_max=max(1, self._reach.bytes_per_second_max // max(1, at_a_time))
        )


def _stretches(start: int, end: int, step: int) -> Iterator[tuple[int, int]]:
    """Pieces that end where ranges do."""
    while start < end:
        last = min(end, (start // step + 1) * step)
        yield start, last
        start = last


def _take(work: _Work, place: TopicPartition, reach: Reach, size: int, seed: int) -> "pa.RecordBatch":
    import pyarrow as pa  # noqa: PLC0415 - in the worker alone

    from holdfast.doctor.prints import print_source  # noqa: PLC0415 - the same: it loads the kernels

    rows: list[tuple[int, int, int, str | None]]
    try:
        with Cluster(reach.endpoint, client_id=CLIENT_ID) as cluster:
            meter = Meter(reach.bytes_per_second_max)
            source = BrokerSource(name=work.replica, cluster=cluster, place=place, meter=meter)
            prints = print_source(source, work.start, work.end, size=size, seed=seed)
        rows = [(work.replica, _STABLE, prints.stable, None)]
        rows += [(work.replica, number, _signed(total), None) for number, total in prints.by_range.items()]
    except HoldfastError as failure:
        rows = [(work.replica, _STABLE, 0, str(failure))]
    columns = [list(column) for column in zip(*rows, strict=True)]
    kinds = (pa.int32(), pa.int64(), pa.int64(), pa.string())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, ["replica", "range", "print", "failure"])


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
