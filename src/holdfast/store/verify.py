"""Is a frame's body what its footer says? Run over every frame that is replayed."""

from holdfast.errors import CorruptFrame
from holdfast.records.walk import walk_valid
from holdfast.store import footer
from holdfast.store.footer import ExtentAppended


def verify_body(body: memoryview, footer_bytes: bytes) -> None:
    """Raise CorruptData unless the extents cover the body and their batches are valid and without a hole."""
    position = 0
    for change in footer.decode(footer_bytes):
        if isinstance(change, ExtentAppended):
            if change.position != position:
                raise CorruptFrame(
                    f"an extent begins at {change.position} where {position} is next", position
                )
            _verify_extent(body, change)
            position += change.length_bytes
    if position != len(body):
        raise CorruptFrame(f"the extents cover {position} of {len(body)} bytes", position)


def _verify_extent(body: memoryview, extent: ExtentAppended) -> None:
    end = extent.position + extent.length_bytes
    if end > len(body):
        raise CorruptFrame("an extent passes the end of the body", extent.position)
    offset = extent.first
    for batch in walk_valid(body, position=extent.position, end=end):
        if batch.base_offset != offset or batch.leader_epoch != extent.leader_epoch:
            raise CorruptFrame(f"batch {batch.base_offset} where {offset} is next", batch.position)
        offset = batch.next_offset
    if offset != extent.last + 1:
        raise CorruptFrame(f"an extent ends at {offset - 1}, not {extent.last}", extent.position)
