"""CRC-32C (Castagnoli), Kafka's checksum, for plain Python; `kernel.crc` is its compiled twin."""

from crc32c import crc32c as _crc32c

from holdfast.records.buffers import ReadableBytes


def crc32c(buffer: ReadableBytes, so_far: int = 0) -> int:
    """The checksum of a contiguous buffer, without copying it; `so_far` is that of the bytes before it."""
    checksum: int = _crc32c(buffer, so_far)
    return checksum
