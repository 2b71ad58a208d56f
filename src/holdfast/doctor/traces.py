"""The second look: everything that a replica has of the keys under suspicion, and how it was decided."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.client.aborted import AbortedTransaction, with_fates
from holdfast.doctor.compare import KeyDifference, Replica
from holdfast.doctor.tables import Newest, digest_of
from holdfast.records.batch import BatchView
from holdfast.records.build import read_records

TOMBSTONE = "tombstone"
ABORTED_TO_COMMITTED = "aborted-to-committed"
COMMITTED_TO_ABORTED = "committed-to-aborted"
STUCK = "stuck"

PREVIEW_BYTES = 60


@dataclass(slots=True, kw_only=True)
class Trace:
    """One record of a key."""

    offset: int
    digest: bytes | None
    is_void: bool
    """The replica takes its transaction for aborted."""
    producer_id: int
    producer_epoch: int
    transactional: bool
    value_bytes: int
    preview: bytes | None
    """The value, or its beginning."""
    reached_back: bool = False
    """Between it and the marker that decided it offsets are missing, or its producer's epoch moved on: that marker
    may be another transaction's."""


class KeyTraces:
    """All records of some keys in one replica's log, in order."""

    def __init__(self, keys: Collection[bytes]) -> None:
        self.by_key: dict[bytes, list[Trace]] = {key: [] for key in keys}
        self._undecided: dict[int, list[Trace]] = {}
        self._next: int | None = None

    @property
    def newest(self) -> dict[bytes, Newest]:
        """What a reader is given last of each key."""
        visible = {
            key: [trace for trace in traces if not trace.is_void] for key, traces in self.by_key.items()
        }
        return {
            key: Newest(traces[-1].offset, traces[-1].digest) for key, traces in visible.items() if traces
        }

    def feed(self, batches: Iterable[BatchView], aborted: Iterable[AbortedTransaction]) -> None:
        """Take one answer of the replica."""
        for batch, is_void in with_fates(batches, aborted):
            if self._next is not None and batch.base_offset > self._next:
                for traces in self._undecided.values():
                    _reach_back(traces)
            self._next = batch.next_offset
            if batch.is_control:
                if batch.record_count:  # one that was emptied decides nothing
                    self._undecided.pop(batch.producer_id, None)
            else:
                self._take(batch, is_void)

    def _take(self, batch: BatchView, is_void: bool) -> None:
        before = self._undecided.get(batch.producer_id, [])
        _reach_back(trace for trace in before if trace.producer_epoch != batch.producer_epoch)
        for record in read_records(batch):
            assert record.offset is not None
            if record.key is None or record.key not in self.by_key:
                continue
            trace = Trace(
                offset=record.offset,
                digest=digest_of(record.value),
                is_void=is_void,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                transactional=batch.is_transactional,
                value_bytes=len(record.value or b""),
                preview=None if record.value is None else record.value[:PREVIEW_BYTES],
            )
            self.by_key[record.key].append(trace)
            if batch.is_transactional:
                self._undecided.setdefault(batch.producer_id, []).append(trace)


def _reach_back(traces: Iterable[Trace]) -> None:
    for trace in traces:
        trace.reached_back = True


def variant_of(difference: KeyDifference, replica: Replica, traces: list[Trace]) -> str | None:
    """Which of the harms a blamed replica's records of the key speak for; None if for none that is known."""
    newest = difference.shown[replica]
    assert newest is not None
    if any(trace.is_void and trace.reached_back and trace.offset > newest.offset for trace in traces):
        return COMMITTED_TO_ABORTED
    shown = next(trace for trace in traces if trace.offset == newest.offset)
    if shown.transactional and shown.reached_back:
        return ABORTED_TO_COMMITTED
    return TOMBSTONE if any(each is None for each in difference.shown.values()) else None
