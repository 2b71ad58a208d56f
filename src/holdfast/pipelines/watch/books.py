"""The tally records of a pipeline, followed: which sealed windows do not balance, and what a day has cost so far."""

from collections import defaultdict
from typing import Final

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, NOT_FOUND, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.pipelines.config import DAY_MS, EndState
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.tally import INGESTED, TallyRecord, decode_tally
from holdfast.pipelines.watch.world import Mismatch, Spending
from holdfast.records.build import read_records

KEPT_DAYS: Final = 2
"""Yesterday tells how much a day is."""
SHARE_MIN: Final = 1 / 24
"""From less of a day nobody can tell how much the whole will be."""


class Books:
    """Sums by tenant and window, of today and yesterday."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._windows: dict[tuple[str, int], TallyRecord] = {}

    def look(self, now_ms: int) -> tuple[tuple[Mismatch, ...], tuple[Spending, ...]]:
        """Reads what is new, forgets what is old."""
        oldest_ms = now_ms - now_ms % DAY_MS - (KEPT_DAYS - 1) * DAY_MS
        self._read(oldest_ms)
        self._windows = {key: record for key, record in self._windows.items() if key[1] >= oldest_ms}
        return self._mismatches(now_ms), self._spendings(now_ms)

    def add(self, record: TallyRecord) -> None:
        """The books of one more micro-batch."""
        key = (record.tenant, record.window_start_ms)
        known = self._windows.get(key)
        self._windows[key] = record if known is None else known + record

    def _mismatches(self, now_ms: int) -> tuple[Mismatch, ...]:
        return tuple(
            Mismatch(
                tenant=record.tenant,
                window_ms=record.window_start_ms,
                ingested=_count(record, INGESTED),
                ended=sum(_count(record, state.value) for state in EndState),
            )
            for record in self._windows.values()
            if now_ms >= record.window_end_ms + LATENESS_MS and not record.is_balanced
        )

    def _spendings(self, now_ms: int) -> tuple[Spending, ...]:
        today_ms = now_ms - now_ms % DAY_MS
        ingested: dict[tuple[str, bool], int] = defaultdict(int)
        failed: dict[str, int] = defaultdict(int)
        for (tenant, start_ms), record in self._windows.items():
            is_today = start_ms >= today_ms
            ingested[tenant, is_today] += _count(record, INGESTED)
            failed[tenant] += _count(record, EndState.FAILED.value) if is_today else 0
        share = max(SHARE_MIN, (now_ms - today_ms) / DAY_MS)
        everything = max(1, sum(ingested.values()))
        return tuple(
            Spending(
                tenant=tenant,
                expected=max(int(ingested[tenant, True] / share), ingested[tenant, False]),
                failed=failed[tenant],
                share_of_waiting=(ingested[tenant, True] + ingested[tenant, False]) / everything,
            )
            for tenant in sorted({tenant for tenant, _ in self._windows})
        )

    def _read(self, oldest_ms: int) -> None:
        partitions = self._cluster.topic(self._topic).partitions
        unknown = [number for number in partitions if number not in self._positions]
        found = list_offsets(self._cluster, self._topic, dict.fromkeys(unknown, oldest_ms)) if unknown else {}
        ends = list_offsets(
            self._cluster, self._topic, dict.fromkeys(partitions, LATEST), isolation=Isolation.READ_COMMITTED
        )
        for number, end in ends.items():
            start = self._positions.get(number, found.get(number, NOT_FOUND))
            if start != NOT_FOUND and start < end:
                self._read_range(OffsetRange(topic=self._topic, partition=number, start=start, end=end))
            self._positions[number] = max(end, start)

    def _read_range(self, wanted: OffsetRange) -> None:
        for chunk in read_range(self._cluster, wanted, isolation=Isolation.READ_COMMITTED):
            for batch in without_aborted(chunk.batches, chunk.aborted):
                for record in () if batch.is_control else read_records(batch):
                    if record.offset is not None and wanted.start <= record.offset < wanted.end:
                        self.add(decode_tally(record.value))


def _count(record: TallyRecord, stage: str) -> int:
    sums = record.stages.get(stage)
    return 0 if sums is None else sums.count
