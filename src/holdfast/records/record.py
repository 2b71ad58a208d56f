"""One record of a batch, and its bytes, in plain Python: for tools, tests and small batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import CorruptBatch

_INT64_MASK = 2**64 - 1
_VARINT_BITS_MAX = 35
_VARLONG_BITS_MAX = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record; without an offset it follows the one before it."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = -1
    offset: int | None = None


def encode_record(record: Record, *, offset_delta: int, timestamp_delta: int) -> bytes:
    """The record as it stands in an uncompressed payload."""
    body = bytearray(b"\x00")
    _put_varint(body, _wrap_int64(timestamp_delta))
    _put_varint(body, offset_delta)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, name.encode())
        _put_bytes(body, value)
    framed = bytearray()
    _put_varint(framed, len(body))
    return bytes(framed + body)


class RecordReader:
    """Takes records one by one from an uncompressed payload, distrusting every length in it."""

    __slots__ = ("_end", "_payload", "_position")

    def __init__(self, payload: memoryview) -> None:
        self._payload = payload
        self._position = 0
        self._end = len(payload)

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Whether every byte has been read."""
        return self._position == len(self._payload)

    def read(self, *, base_offset: int, base_timestamp: int) -> Record:
        """The next record, with its deltas added to the batch's bases."""
        self._end = len(self._payload)
        length = self._varint(_VARINT_BITS_MAX)
        end = self._position + length
        if not self._position < end <= self._end:
            raise self._fault(f"a record of {length} bytes")
        self._end = end
        self._position += 1
        timestamp_delta = self._varint(_VARLONG_BITS_MAX)
        offset_delta = self._varint(_VARINT_BITS_MAX)
        record = Record(
            key=self._bytes(),
            value=self._bytes(),
            headers=self._headers(),
            timestamp_ms=_wrap_int64(base_timestamp + timestamp_delta),
            offset=base_offset + offset_delta,
        )
        if self._position != end:
            raise self._fault(f"{end - self._position} stray bytes in a record")
        return record

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        count = self._varint(_VARINT_BITS_MAX)
        if not 0 <= count <= (self._end - self._position) // 2:
            raise self._fault(f"{count} record headers")
        return tuple(self._header() for _ in range(count))

    def _header(self) -> tuple[str, bytes | None]:
        name = self._bytes()
        if name is None:
            raise self._fault("a record header without a name")
        return name.decode(errors="replace"), self._bytes()

    def _bytes(self) -> bytes | None:
        length = self._varint(_VARINT_BITS_MAX)
        if length == -1:
            return None
        start = self._position
        if not 0 <= length <= self._end - start:
            raise self._fault(f"a field of {length} bytes")
        self._position = start + length
        return bytes(self._payload[start : self._position])

    def _varint(self, bits_max: int) -> int:
        raw = shift = 0
        while True:
            if self._position >= self._end or shift >= bits_max:
                raise self._fault("a number that does not end")
            byte = self._payload[self._position]
            self._position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        raw &= _INT64_MASK
        return (raw >> 1) ^ -(raw & 1)

    def _fault(self, why: str) -> CorruptBatch:
        return CorruptBatch(f"{why}, at byte {self._position} of the inflated payload")


def _put_bytes(out: bytearray, field: bytes | None) -> None:
    if field is None:
        _put_varint(out, -1)
    else:
        _put_varint(out, len(field))
        out += field


def _put_varint(out: bytearray, number: int) -> None:
    raw = ((number << 1) ^ (number >> 63)) & _INT64_MASK
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def _wrap_int64(number: int) -> int:
    return (number + 2**63 & _INT64_MASK) - 2**63
