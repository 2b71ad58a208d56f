"""The segments of one store: read, listed, checked and deleted."""

import logging
import os
import re
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import CorruptIndex, FormatTooNew, StoreFailed
from holdfast.store.marks import marks_path
from holdfast.store.open_files import OpenFiles
from holdfast.store.segment import segment_path
from holdfast.store.segment_index import SegmentIndex, index_path, rebuild_index

logger = logging.getLogger(__name__)

INDEX_CACHE_BYTES_MAX = 16 * 1024 * 1024

_ON_DISK = re.compile(r"(\d{20}\.\d+-[0-9a-z]+)\.(log|index|marks|tmp)")


class SegmentFiles(NamedTuple):
    """What lies below a store's folder of segments."""

    files: set[str]
    """Segments, also those that were never finished or only deleted by half, or that only marks were made for."""
    empty_folders: list[str]
    """A crash left them behind."""


def scan_segments(directory: Path) -> SegmentFiles:
    """What there is on the store in `directory`; StoreFailed if that cannot be seen."""
    root = directory / "segments"
    found = SegmentFiles(set(), [])
    for topic in _names(root):
        partitions = _names(root / topic)
        if not partitions and (root / topic).is_dir():
            found.empty_folders.append(topic)
        for partition in partitions:
            names = _names(root / topic / partition)
            if not names and (root / topic / partition).is_dir():
                found.empty_folders.append(f"{topic}/{partition}")
            segments = (match[1] for name in names if (match := _ON_DISK.fullmatch(name)))
            found.files.update(f"{topic}/{partition}/{segment}.log" for segment in segments)
    return found


def delete_segment(directory: Path, file: str) -> int:
    """Delete a segment of the store in `directory`, with its index, or marks, and folders that are empty then.

    It may be gone already. Returns the bytes freed.
    """
    path = segment_path(directory, file)
    index = index_path(path)
    freed_bytes = 0
    try:
        # The file itself goes after its index: what a crash leaves is listed, and deleted again. The index goes
        # once more after the file, because somebody may have rebuilt it in between.
        for each in (index.with_suffix(".tmp"), marks_path(path), index, path, index):
            with suppress(FileNotFoundError):
                size_bytes = each.stat().st_size
                each.unlink()
                freed_bytes += size_bytes
    except OSError as failure:
        raise StoreFailed(f"cannot delete {path}: {failure.strerror}") from failure
    for folder in (path.parent, path.parent.parent):
        # Not empty, or somebody has been faster.
        with suppress(OSError):
            folder.rmdir()
    return freed_bytes


def delete_folder(directory: Path, folder: str) -> None:
    """Delete an empty folder that `scan_segments` has found, unless something is in it by now."""
    path = directory / "segments" / folder
    for each in (path, path.parent) if "/" in folder else (path,):
        with suppress(OSError):
            each.rmdir()


def _names(folder: Path) -> list[str]:
    """What is in a folder; nothing if it is none, or gone."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as failure:
        raise StoreFailed(f"cannot look into {folder}: {failure.strerror}") from failure


class Segments:
    """Segment files below `directory`; any thread may ask."""

    def __init__(
        self, directory: Path, files: OpenFiles, *, index_bytes_max: int = INDEX_CACHE_BYTES_MAX
    ) -> None:
        self._directory = directory
        self._files = files
        self._index_bytes_max = index_bytes_max
        self._index_bytes = 0
        self._indexes: OrderedDict[str, SegmentIndex] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, file: str, position: int, length: int) -> bytes:
        """See `Store.read_segment`."""
        path = segment_path(self._directory, file)
        try:
            data = self._files.get(path).read(length, position)
        except OSError as failure:
            raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
        if len(data) != length:
            raise StoreFailed(f"{path} ends before byte {position + length}")
        return data

    def index(self, file: str) -> SegmentIndex:
        """See `Store.segment_index`."""
        with self._lock:
            index = self._indexes.get(file)
            if index is not None:
                self._indexes.move_to_end(file)
                return index
        index = self._load_index(segment_path(self._directory, file))
        with self._lock:
            if self._indexes.setdefault(file, index) is index:
                self._index_bytes += index.size_bytes
            while self._index_bytes > self._index_bytes_max:
                self._index_bytes -= self._indexes.popitem(last=False)[1].size_bytes
        return index

    def check(self, file: str, length_bytes: int) -> None:
        """See `Store.check_segment`."""
        path = segment_path(self._directory, file)
        try:
            size_bytes = path.stat().st_size
        except OSError as failure:
            raise StoreFailed(f"cannot find {path}: {failure.strerror}") from failure
        if size_bytes != length_bytes:
            raise StoreFailed(f"{path} has {size_bytes} bytes, not {length_bytes}: restore it")

    def list_files(self) -> set[str]:
        """See `Store.list_files`."""
        return scan_segments(self._directory).files

    def delete(self, file: str) -> int:
        """See `Store.delete_segment`."""
        freed_bytes = delete_segment(self._directory, file)
        self._files.forget(segment_path(self._directory, file))
        with self._lock:
            known = self._indexes.pop(file, None)
            self._index_bytes -= known.size_bytes if known is not None else 0
        return freed_bytes

    def close(self) -> None:
        """Let go of the indexes."""
        with self._lock:
            self._indexes.clear()
            self._index_bytes = 0

    def _load_index(self, path: Path) -> SegmentIndex:
        try:
            length_bytes = path.stat().st_size
            index = SegmentIndex.load(index_path(path))
            if index.length_bytes == length_bytes:
                return index
            why = f"it is that of {index.length_bytes} bytes, not {length_bytes}"
        except FormatTooNew as failure:
            raise StoreFailed(f"{index_path(path)}: {failure}") from failure
        except OSError as failure:
            raise StoreFailed(f"cannot read {path}: {failure.strerror}") from failure
        except (CorruptIndex, StoreFailed) as failure:
            why = str(failure)
        logger.warning("the index of %s is made anew: %s", path, why)
        return rebuild_index(path)
