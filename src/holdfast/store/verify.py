"""Is a frame's body what its footer says? Run over every frame that is replayed."""

from collections.abc import Sequence

from holdfast.errors import CorruptFrame
from holdfast.records.walk import walk_valid
from holdfast.store import footer
from holdfast.store.footer import Change, ExtentAppended


def verify_body(body: memoryview, changes: Sequence[Change], store: int) -> None:
    """Raise CorruptData unless the store's extents are the body and their batches valid, without a hole."""
    end = 0
    for position, extent in footer.extents_on(changes, store):
        end = position + extent.length_bytes
        if end > len(body):
            raise CorruptFrame("an extent passes the end of the body", position)
        _verify_extent(body, position, extent)
    if end != len(body):
        raise CorruptFrame(f"the extents cover {end} of {len(body)} bytes", end)


def _verify_extent(body: memoryview, position: int, extent: ExtentAppended) -> None:
    offset = extent.first
    for batch in walk_valid(body, position=position, end=position + extent.length_bytes):
        if batch.base_offset != offset or batch.leader_epoch != extent.leader_epoch:
            raise CorruptFrame(f"batch {batch.base_offset} where {offset} is next", batch.position)
        offset = batch.next_offset
    if offset != extent.last + 1:
        raise CorruptFrame(f"an extent ends at {offset - 1}, not {extent.last}", position)
