"""Kafka's primitive types, for the few messages that are worth decoding by hand.

Everything else goes through kafka-python's schema-driven classes: see `registry`.
"""

import struct
from collections.abc import Sequence
from uuid import UUID

from holdfast.errors import InvalidRequest
from holdfast.store.journal import Buffer

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


class Reader:
    """Reads one request body from left to right; InvalidRequest when it is not what its version says.

    Small and called often: each method checks its own bounds, because a shared one would double its price.
    """

    __slots__ = ("_buffer", "_end", "_flexible", "_position")

    def __init__(self, buffer: memoryview, *, flexible: bool, position: int = 0) -> None:
        self._buffer = buffer
        self._end = len(buffer)
        self._flexible = flexible
        self._position = position

    def _short(self, length: int) -> InvalidRequest:
        return InvalidRequest(f"{length} bytes wanted, {self._end - self._position} are left")

    def int8(self) -> int:
        """A signed byte."""
        return self._fixed(_INT8)

    def int16(self) -> int:
        """Two bytes, signed."""
        return self._fixed(_INT16)

    def int32(self) -> int:
        """Four bytes, signed."""
        return self._fixed(_INT32)

    def int64(self) -> int:
        """Eight bytes, signed."""
        return self._fixed(_INT64)

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        """Fixed fields in one go."""
        try:
            values = layout.unpack_from(self._buffer, self._position)
        except struct.error:
            raise self._short(layout.size) from None
        self._position += layout.size
        return values

    def _fixed(self, layout: struct.Struct) -> int:
        try:
            value: int = layout.unpack_from(self._buffer, self._position)[0]
        except struct.error:
            raise self._short(layout.size) from None
        self._position += layout.size
        return value

    def uuid(self) -> UUID:
        """A topic id."""
        return UUID(bytes=bytes(self._bytes(16)))

    def varint(self) -> int:
        """An unsigned varint of at most 32 bits."""
        buffer = self._buffer
        position = self._position
        try:
            value: int = buffer[position]
            if value >= 0x80:
                value &= 0x7F
                for shift in (7, 14, 21, 28):
                    position += 1
                    byte = buffer[position]
                    value |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                else:
                    raise InvalidRequest("a varint longer than five bytes")
        except IndexError:
            raise self._short(1) from None
        self._position = position + 1
        return value

    def string(self) -> str | None:
        """A nullable string of either encoding."""
        length = self.varint() - 1 if self._flexible else self._fixed(_INT16)
        if length < 0:
            return None
        try:
            return str(self._bytes(length), "utf-8")
        except UnicodeDecodeError as failure:
            raise InvalidRequest(f"a string that is not UTF-8: {failure}") from failure

    def blob(self) -> memoryview | None:
        """Nullable bytes of either encoding, not copied."""
        length = self.varint() - 1 if self._flexible else self._fixed(_INT32)
        return None if length < 0 else self._bytes(length)

    def _bytes(self, length: int) -> memoryview:
        end = self._position + length
        if end > self._end:
            raise self._short(length)
        data = self._buffer[self._position : end]
        self._position = end
        return data

    def rest(self) -> memoryview:
        """What has not been read yet."""
        return self._buffer[self._position :]

    def count(self) -> int:
        """An array's length; null counts as empty. Every element takes at least a byte, so it is bounded."""
        count = self.varint() - 1 if self._flexible else self._fixed(_INT32)
        if count > self._end - self._position:
            raise InvalidRequest(f"an array of {count} elements in {self._end - self._position} bytes")
        return max(count, 0)

    def present_count(self) -> int:
        """The length of an array that must not be null."""
        position = self._position
        if (self.varint() if self._flexible else self._fixed(_INT32) + 1) == 0:
            raise InvalidRequest("an array that is null")
        self._position = position
        return self.count()

    def tags(self) -> None:
        """Step over tagged fields, if this version has them."""
        if self._flexible and (count := self.varint()):
            for _ in range(count):
                self.varint()
                self._bytes(self.varint())


class Writer:
    """Gathers one response; large blobs are kept as they are, to be sent without a copy."""

    __slots__ = ("_flexible", "_small", "buffers")

    def __init__(self, *, flexible: bool) -> None:
        self.buffers: list[Buffer] = []
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

    def blob(self, chunks: Sequence[Buffer]) -> None:
        """Bytes made of chunks that are sent as they are."""
        self.count(sum(map(len, chunks)))
        if chunks:
            self.buffers += [self._small, *chunks]
            self._small = bytearray()

    def tags(self) -> None:
        """No tagged fields, if this version has them."""
        if self._flexible:
            self._small.append(0)

    def finish(self) -> list[Buffer]:
        """All buffers in order."""
        return [*self.buffers, self._small]
