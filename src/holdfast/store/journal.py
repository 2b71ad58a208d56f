"""The frames of a journal as bytes, as `docs/formats.md` describes them. No I/O here."""

import struct
from dataclasses import dataclass
from mmap import mmap

from holdfast.errors import CorruptFrame, FormatTooNew
from holdfast.records.crc import crc32c

FRAME_MAGIC = b"HFFR"
FRAME_END_MAGIC = b"RFFH"
VERSION = 1

_FRAME_HEADER = struct.Struct(">4sHHQQI")
_CRC = struct.Struct(">I")

FRAME_HEADER_BYTES = _FRAME_HEADER.size + _CRC.size
FRAME_TRAILER_BYTES = _CRC.size + len(FRAME_END_MAGIC)

Buffer = bytes | bytearray | memoryview

# How far the numbers may run ahead behind a frame that cannot be read.
NUMBERS_AHEAD_MAX = 1_000_000


def journal_name(first_frame: int) -> str:
    """The name of the file whose first frame has this number."""
    return f"{first_frame:020d}.journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One group commit as found in a journal: `position` is the file position of the frame's first byte."""

    number: int
    position: int
    body_bytes: int
    footer: bytes

    @property
    def body_position(self) -> int:
        """File position of the first batch."""
        return self.position + FRAME_HEADER_BYTES

    @property
    def end(self) -> int:
        """File position after the frame."""
        return self.body_position + self.body_bytes + len(self.footer) + FRAME_TRAILER_BYTES


def frame_head(number: int, body_bytes: int, footer_bytes: int) -> bytes:
    """The bytes before the body."""
    head = _FRAME_HEADER.pack(FRAME_MAGIC, VERSION, 0, number, body_bytes, footer_bytes)
    return head + _CRC.pack(crc32c(head))


def frame_tail(footer: bytes) -> bytes:
    """The bytes after the body: footer, its CRC, end magic."""
    return footer + _CRC.pack(crc32c(footer)) + FRAME_END_MAGIC


def read_frame(buffer: Buffer | mmap, position: int, number_expected: int | None = None) -> Frame:
    """The frame at `position`; CorruptFrame if it is not whole. Its batches are not looked at.

    FormatTooNew if its header is sound and of a newer version: that is never damage.
    """
    number, body_bytes, footer_bytes = _read_head(buffer, position)
    if number_expected is not None and number != number_expected:
        raise CorruptFrame(f"frame {number} where {number_expected} was expected", position)
    footer_position = position + FRAME_HEADER_BYTES + body_bytes
    end = footer_position + footer_bytes + FRAME_TRAILER_BYTES
    if end > len(buffer):
        raise CorruptFrame("frame cut off", position)
    footer = bytes(buffer[footer_position : footer_position + footer_bytes])
    if _CRC.unpack_from(buffer, footer_position + footer_bytes)[0] != crc32c(footer):
        raise CorruptFrame("frame footer CRC mismatch", position)
    if bytes(buffer[end - len(FRAME_END_MAGIC) : end]) != FRAME_END_MAGIC:
        raise CorruptFrame("frame without its end", position)
    return Frame(number=number, position=position, body_bytes=body_bytes, footer=footer)


def has_frame_after(data: bytes | mmap, position: int, number: int) -> bool:
    """Whether a whole frame follows the damaged one, `number`, at `position`: it tells damage from a torn tail.

    A readable header says where the frame would have ended; the search starts there, so that a record
    whose value looks like a frame is not taken for one. Without it only frames count that could come next.
    """
    try:
        _, body_bytes, footer_bytes = _read_head(data, position)
        position += FRAME_HEADER_BYTES + body_bytes + footer_bytes + FRAME_TRAILER_BYTES
    except CorruptFrame:
        position += 1
    while (position := data.find(FRAME_MAGIC, position)) >= 0:
        try:
            if number < read_frame(data, position).number <= number + NUMBERS_AHEAD_MAX:
                return True
        except FormatTooNew:
            return True
        except CorruptFrame:
            pass
        position += 1
    return False


def _read_head(buffer: Buffer | mmap, position: int) -> tuple[int, int, int]:
    """(number, body bytes, footer bytes) of the frame at `position`."""
    if position + FRAME_HEADER_BYTES > len(buffer):
        raise CorruptFrame("frame header cut off", position)
    head = bytes(buffer[position : position + _FRAME_HEADER.size])
    magic, version, _, number, body_bytes, footer_bytes = _FRAME_HEADER.unpack(head)
    if magic != FRAME_MAGIC:
        raise CorruptFrame("no frame begins here", position)
    if _CRC.unpack_from(buffer, position + _FRAME_HEADER.size)[0] != crc32c(head):
        raise CorruptFrame("frame header CRC mismatch", position)
    if version > VERSION:
        raise FormatTooNew(
            f"frame {number} has version {version}, newer than {VERSION}: use a newer Holdfast"
        )
    return number, body_bytes, footer_bytes
