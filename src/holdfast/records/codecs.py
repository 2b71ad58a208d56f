"""Kafka's compression codecs, with a bound on what a payload may inflate to.

A payload comes from a client and may lie: `decompress` never holds more than `bytes_max` bytes of output and
raises CorruptBatch for everything that it cannot inflate; for a decompression bomb it is InflatesTooFar.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from holdfast.errors import CorruptBatch, InflatesTooFar
from holdfast.records.batch import Codec
from holdfast.records.buffers import ReadableBytes

INFLATED_BYTES_MAX: Final = 256 << 20
"""Default bound for one batch: Kafka itself has none, and its largest default batch is 1 MiB compressed."""

INFLATED_TOTAL_BYTES_MAX: Final = 1 << 30
"""Default bound for all batches of one buffer: as much as Kafka's default segment holds."""

_GZIP_WINDOW_BITS = 31
_GZIP_MEMBERS_MAX = 10_000
"""Clients write one. An empty one takes 20 bytes and costs as much as many kilobytes do."""

_GZIP_PIECE_BYTES = 512
_LZ4_LEVEL = 1
_ZSTD_LEVEL = 3

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_BLOCK_LENGTH = struct.Struct(">i")
_SNAPPY_RATIO_MAX = 64
"""A copy element of two bytes yields at most 64, so a larger claim is a lie and needs no memory to refute."""

_GUESSED_RATIO = 6
_GUESS_BYTES_MIN = 64 << 10
_OUTPUT_FULL = "failed to write whole buffer"


def compress(codec: Codec, data: ReadableBytes) -> bytes:
    """The payload as Kafka's clients expect it: plain snappy, lz4 frames of independent blocks (KIP-57)."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, wbits=_GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def decompress(codec: Codec, data: ReadableBytes, *, bytes_max: int = INFLATED_BYTES_MAX) -> memoryview:
    """What was compressed, if it is at most `bytes_max` long; raises CorruptBatch."""
    source = memoryview(data)
    try:
        match codec:
            case Codec.NONE:
                return _bounded(source, bytes_max)
            case Codec.GZIP:
                return _gunzip(source, bytes_max)
            case Codec.SNAPPY:
                return _unsnappy(source, bytes_max)
            case Codec.LZ4:
                return _inflate(cramjam.lz4.decompress_into, source, bytes_max)
            case Codec.ZSTD:
                content_bytes = _zstd_content_bytes(source)
                return _inflate(cramjam.zstd.decompress_into, source, bytes_max, content_bytes)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise CorruptBatch(f"{codec.name.lower()} payload: {error}") from None


def _bounded(inflated: memoryview, bytes_max: int) -> memoryview:
    if len(inflated) > bytes_max:
        raise _too_large(bytes_max)
    return inflated


def _too_large(bytes_max: int) -> InflatesTooFar:
    return InflatesTooFar(f"the payload inflates to more than {bytes_max} bytes")


def _gunzip(source: memoryview, bytes_max: int) -> memoryview:
    """zlib alone stops at a given length, so gzip needs no guess. Members follow one another."""
    parts: list[bytes] = []
    room = bytes_max
    position = 0
    for _ in range(_GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        # zlib copies what it is given beyond a member's end, so that pieces grow with the member.
        piece_bytes = _GZIP_PIECE_BYTES
        while not member.eof:
            piece = source[position : position + piece_bytes]
            if not piece:
                raise zlib.error("truncated")
            part = member.decompress(piece, room + 1)
            if len(part) > room:
                raise _too_large(bytes_max)
            parts.append(part)
            room -= len(part)
            position += len(piece) - len(member.unused_data)
            piece_bytes *= 8
        if position == len(source):
            return memoryview(b"".join(parts))
    raise CorruptBatch(f"the payload has more than {_GZIP_MEMBERS_MAX} gzip members")


def _unsnappy(source: memoryview, bytes_max: int) -> memoryview:
    """Plain snappy (librdkafka), or the chunks that the Java client's xerial library frames."""
    if source[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return memoryview(_unsnappy_block(source, bytes_max))
    inflated = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(source):
        block_at = position + _BLOCK_LENGTH.size
        if block_at > len(source):
            raise CorruptBatch("snappy payload: a block without its length")
        length = _BLOCK_LENGTH.unpack_from(source, position)[0]
        position = block_at + length
        if length <= 0 or position > len(source):
            raise CorruptBatch(f"snappy payload: a block of {length} bytes")
        inflated += _unsnappy_block(source[block_at:position], bytes_max - len(inflated))
    return memoryview(inflated)


def _unsnappy_block(block: memoryview, bytes_max: int) -> bytearray:
    length = cramjam.snappy.decompress_raw_len(block)
    if length > bytes_max:
        raise _too_large(bytes_max)
    if length > len(block) * _SNAPPY_RATIO_MAX:
        raise CorruptBatch(f"snappy payload: {len(block)} bytes cannot hold {length}")
    output = bytearray(length)
    cramjam.snappy.decompress_raw_into(block, output)
    return output


def _inflate(
    inflate_into: Callable[[memoryview, bytearray], int],
    source: memoryview,
    bytes_max: int,
    content_bytes: int | None = None,
) -> memoryview:
    """Into a buffer of the declared or a guessed size; one that proves too small is raised four-fold.

    A declared size covers the first frame alone, and several may follow one another.
    """
    room = content_bytes
    if room is None:
        room = min(max(_GUESS_BYTES_MIN, _GUESSED_RATIO * len(source)), bytes_max)
    while room <= bytes_max:
        output = bytearray(room)
        try:
            length = inflate_into(source, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if room == bytes_max:
                break
            room = min(4 * max(room, _GUESS_BYTES_MIN), bytes_max)
        else:
            return memoryview(output)[:length]
    raise _too_large(bytes_max)


def _zstd_content_bytes(source: memoryview) -> int | None:
    """The content size that the first frame's header declares, if it does (RFC 8878, 3.1.1.1)."""
    if len(source) < 5:
        return None
    descriptor = source[4]
    single_segment = descriptor >> 5 & 1
    field_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if not field_bytes or start + field_bytes > len(source):
        return None
    content_bytes = int.from_bytes(source[start : start + field_bytes], "little")
    return content_bytes + 256 if field_bytes == 2 else content_bytes
