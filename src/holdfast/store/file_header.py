"""The first bytes of a journal and of a carried file: what it is, whose it is, which one it is. No I/O here."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from holdfast.errors import CorruptFrame, FormatTooNew
from holdfast.records.buffers import ReadableBytes
from holdfast.records.crc import crc32c

FILE_MAGIC = b"HOLDFAST"
VERSION = 1

_HEADER = struct.Struct(">8sHHIQ16s")
_CRC = struct.Struct(">I")

FILE_HEADER_BYTES = _HEADER.size + _CRC.size


class FileKind(IntEnum):
    """What a file of a store is; an index has a header of its own (`segment.py`)."""

    JOURNAL = 1
    INDEX = 2
    CARRIED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHeader:
    """The header of a journal, `number` being its first frame, or of a carried file, `number` being its own."""

    kind: FileKind
    store: int
    number: int
    cluster_id: UUID

    def encode(self) -> bytes:
        """The header with its CRC."""
        head = _HEADER.pack(FILE_MAGIC, self.kind, VERSION, self.store, self.number, self.cluster_id.bytes)
        return head + _CRC.pack(crc32c(head))

    @classmethod
    def decode(cls, buffer: ReadableBytes, kind: FileKind) -> "FileHeader":
        """The header at the start of `buffer`; CorruptFrame if it is none of that kind."""
        name = kind.name.lower()
        if len(buffer) < FILE_HEADER_BYTES:
            raise CorruptFrame(f"a {name} file shorter than its header")
        head = memoryview(buffer)[: _HEADER.size]
        magic, found, version, store, number, cluster_id = _HEADER.unpack(head)
        if magic != FILE_MAGIC or found != kind:
            raise CorruptFrame(f"not a {name} file of Holdfast")
        if _CRC.unpack_from(buffer, _HEADER.size)[0] != crc32c(head):
            raise CorruptFrame(f"{name} file header CRC mismatch")
        if version > VERSION:
            raise FormatTooNew(f"{name} file version {version} is newer than {VERSION}: use a newer Holdfast")
        return cls(kind=kind, store=store, number=number, cluster_id=UUID(bytes=cluster_id))
