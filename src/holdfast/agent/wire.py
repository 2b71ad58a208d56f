"""Kafka's primitive types, for the few messages that are worth decoding by hand.

Everything else goes through kafka-python's schema-driven classes: see `registry`.
"""

import struct
from uuid import UUID

from holdfast.errors import InvalidRequest

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Reader:
    """Reads one request body from left to right; InvalidRequest when it is not what its version says."""

    __slots__ = ("_buffer", "_end", "_flexible", "_position")

    def __init__(self, buffer: memoryview, *, flexible: bool) -> None:
        self._buffer = buffer
        self._end = len(buffer)
        self._flexible = flexible
        self._position = 0

    def _take(self, length: int) -> int:
        """Step over `length` bytes; the position before them."""
        position = self._position
        if length < 0 or position + length > self._end:
            raise InvalidRequest(f"{length} bytes wanted, {self._end - position} are left")
        self._position = position + length
        return position

    def int8(self) -> int:
        """A signed byte."""
        value: int = _INT8.unpack_from(self._buffer, self._take(1))[0]
        return value

    def int16(self) -> int:
        """Two bytes, signed."""
        value: int = _INT16.unpack_from(self._buffer, self._take(2))[0]
        return value

    def int32(self) -> int:
        """Four bytes, signed."""
        value: int = _INT32.unpack_from(self._buffer, self._take(4))[0]
        return value

    def int64(self) -> int:
        """Eight bytes, signed."""
        value: int = _INT64.unpack_from(self._buffer, self._take(8))[0]
        return value

    def uuid(self) -> UUID:
        """A topic id."""
        position = self._take(16)
        return UUID(bytes=bytes(self._buffer[position : position + 16]))

    def varint(self) -> int:
        """An unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte: int = self._buffer[self._take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise InvalidRequest("a varint longer than five bytes")

    def string(self) -> str | None:
        """A nullable string of either encoding."""
        length = self.varint() - 1 if self._flexible else self.int16()
        if length < 0:
            return None
        position = self._take(length)
        try:
            return str(self._buffer[position : position + length], "utf-8")
        except UnicodeDecodeError as failure:
            raise InvalidRequest(f"a string that is not UTF-8: {failure}") from failure

    def blob(self) -> memoryview | None:
        """Nullable bytes of either encoding, not copied."""
        length = self.varint() - 1 if self._flexible else self.int32()
        if length < 0:
            return None
        position = self._take(length)
        return self._buffer[position : position + length]

    def rest(self) -> memoryview:
        """What has not been read yet."""
        return self._buffer[self._position :]

    def count(self) -> int:
        """An array's length; null counts as empty. Every element takes at least a byte, so it is bounded."""
        count = self.varint() - 1 if self._flexible else self.int32()
        if count > self._end - self._position:
            raise InvalidRequest(f"an array of {count} elements in {self._end - self._position} bytes")
        return max(count, 0)

    def tags(self) -> None:
        """Step over tagged fields, if this version has them."""
        if self._flexible:
            for _ in range(self.varint()):
                self.varint()
                self._take(self.varint())


class Writer:
    """Gathers one response; large blobs are kept as they are, to be sent without a copy."""

    __slots__ = ("_flexible", "_small", "buffers")

    def __init__(self, *, flexible: bool) -> None:
        self.buffers: list[bytes | bytearray] = []
        self._small = bytearray()
        self._flexible = flexible

    def pack(self, layout: struct.Struct, *values: object) -> None:
        """Fixed fields in one go."""
        self._small += layout.pack(*values)

    def raw(self, data: bytes) -> None:
        """Bytes that need no length."""
        self._small += data

    def varint(self, value: int) -> None:
        """An unsigned varint."""
        while value >= 0x80:
            self._small.append(value & 0x7F | 0x80)
            value >>= 7
        self._small.append(value)

    def count(self, count: int) -> None:
        """An array's length."""
        if self._flexible:
            self.varint(count + 1)
        else:
            self._small += _INT32.pack(count)

    def string(self, value: str | None) -> None:
        """A nullable string."""
        data = b"" if value is None else value.encode()
        if self._flexible:
            self.varint(0 if value is None else len(data) + 1)
        else:
            self._small += _INT16.pack(-1 if value is None else len(data))
        self._small += data

    def blob(self, chunks: list[bytes]) -> None:
        """Bytes made of chunks that are sent as they are."""
        self.count(sum(map(len, chunks)))
        if chunks:
            self.buffers += [self._small, *chunks]
            self._small = bytearray()

    def tags(self) -> None:
        """No tagged fields, if this version has them."""
        if self._flexible:
            self._small.append(0)

    def finish(self) -> list[bytes | bytearray]:
        """All buffers in order."""
        return [*self.buffers, self._small]
