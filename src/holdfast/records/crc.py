"""CRC-32C (Castagnoli), Kafka's checksum, for plain Python; `kernel.crc` is its compiled twin."""

from crc32c import crc32c as _crc32c

from holdfast.records.buffers import ReadableBytes


def crc32c(buffer: ReadableBytes) -> int:
    """The checksum of a contiguous buffer, without copying it."""
    checksum: int = _crc32c(buffer)
    return checksum
