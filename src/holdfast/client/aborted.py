"""What a read_committed reader must leave out by itself: a stock Kafka broker sends aborted batches along."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.records.batch import BatchView
from holdfast.records.control import ControlType, read_control


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """From `first_offset` up to its ABORT marker, what this producer wrote is void."""

    producer_id: int
    first_offset: int


def without_aborted(
    batches: Iterable[BatchView], aborted: Iterable[AbortedTransaction]
) -> Iterator[BatchView]:
    """The batches of one fetch answer, in order, less those of aborted transactions; control batches stay."""
    return (batch for batch, is_void in with_fates(batches, aborted) if not is_void)


def with_fates(
    batches: Iterable[BatchView], aborted: Iterable[AbortedTransaction]
) -> Iterator[tuple[BatchView, bool]]:
    """The batches of one fetch answer, in order, each with whether its transaction was aborted.

    An entry opens when a batch reaches its first offset, not when one starts there: compaction may have
    changed where batches start, and a transaction may have begun before the fetched range.
    """
    waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
    void: set[int] = set()
    for batch in batches:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            void.add(waiting.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in void and _is_abort(batch):
                void.remove(batch.producer_id)
            yield batch, False
        else:
            yield batch, batch.is_transactional and batch.producer_id in void


def _is_abort(batch: BatchView) -> bool:
    control = read_control(batch)
    return control is not None and control.type == ControlType.ABORT
