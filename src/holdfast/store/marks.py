"""Marks: what the tasks of one rewrite tell each other about its records, a bit for each.

They lie beside the segments, under names of the same kind, and are of no use to anybody once the rewrite is over. So
they are not made durable, and whatever a dead keeper leaves of them is collected like its segments.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.errors import StoreFailed
from holdfast.store.durable import write_all
from holdfast.store.journal import Buffer
from holdfast.store.segment import create_file, segment_path


def marks_path(segment: Path) -> Path:
    """Where the marks lie that bear a segment's name."""
    return segment.with_suffix(".marks")


def write_marks(directory: Path, file: str, sections: Sequence[Buffer]) -> None:
    """Write marks under the name `file`, which nobody else uses; StoreFailed, and then nothing is left of them."""
    path = marks_path(segment_path(directory, file))
    try:
        descriptor = create_file(path)
        try:
            write_all(descriptor, sections, 0)
        finally:
            os.close(descriptor)
    except OSError as failure:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise StoreFailed(f"cannot write {path}: {failure.strerror}") from failure


def read_marks(directory: Path, file: str, position: int, length_bytes: int) -> bytes:
    """Exactly `length_bytes` of them; StoreFailed if they are not there."""
    path = marks_path(segment_path(directory, file))
    try:
        with path.open("rb") as marks:
            marks.seek(position)
            data = marks.read(length_bytes)
    except OSError as failure:
        raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
    if len(data) != length_bytes:
        raise StoreFailed(f"{path} ends before byte {position + length_bytes}")
    return data
