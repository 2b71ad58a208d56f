"""What counts as bytes in this package: any contiguous buffer, a mapped file included."""

from mmap import mmap
from typing import TypeAlias

ReadableBytes: TypeAlias = bytes | bytearray | memoryview | mmap
WritableBytes: TypeAlias = bytearray | memoryview
