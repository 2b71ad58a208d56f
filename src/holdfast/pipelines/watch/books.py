"""The tally records of a pipeline, followed: which sealed windows do not balance, and what a day has cost so far."""

from holdfast.client.aborted import without_aborted
from holdfast.client.cluster import Cluster
from holdfast.client.offsets import LATEST, NOT_FOUND, Isolation, list_offsets
from holdfast.client.reader import OffsetRange, read_range
from holdfast.pipelines.config import EndState
from holdfast.pipelines.recon.day import LATENESS_MS
from holdfast.pipelines.tally import INGESTED, TallyRecord, decode_tally
from holdfast.pipelines.watch.windows import Window, find_mismatches, find_spendings, oldest_ms
from holdfast.pipelines.watch.world import Mismatch, Spending
from holdfast.records.build import read_records


class Books:
    """Sums by tenant and window, of today and yesterday."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._records: dict[tuple[str, int], TallyRecord] = {}

    def look(self, now_ms: int) -> tuple[tuple[Mismatch, ...], tuple[Spending, ...]]:
        """Reads what is new, forgets what is old."""
        first_ms = oldest_ms(now_ms)
        self._read(first_ms)
        self._records = {key: record for key, record in self._records.items() if key[1] >= first_ms}
        windows = {key: _window(record) for key, record in self._records.items()}
        return find_mismatches(windows, sealed_ms=now_ms - LATENESS_MS), find_spendings(windows, now_ms)

    def add(self, record: TallyRecord) -> None:
        """The books of one more micro-batch."""
        key = (record.tenant, record.window_start_ms)
        known = self._records.get(key)
        self._records[key] = record if known is None else known + record

    def _read(self, first_ms: int) -> None:
        partitions = self._cluster.topic(self._topic).partitions
        unknown = [number for number in partitions if number not in self._positions]
        found = list_offsets(self._cluster, self._topic, dict.fromkeys(unknown, first_ms)) if unknown else {}
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


def _window(record: TallyRecord) -> Window:
    return Window(
        end_ms=record.window_end_ms,
        ingested=_count(record, INGESTED),
        ended=sum(_count(record, state.value) for state in EndState),
        failed=_count(record, EndState.FAILED.value),
        is_balanced=record.is_balanced,
    )


def _count(record: TallyRecord, stage: str) -> int:
    sums = record.stages.get(stage)
    return 0 if sums is None else sums.count
