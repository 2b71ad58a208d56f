"""Files that are kept open for reading: as many as are in use now, and a bounded number of others."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

OPEN_FILES_MAX = 256


class OpenFile:
    """A descriptor that is closed when nobody holds this object any more.

    Whoever reads holds it: the descriptor can neither be closed nor be another file's meanwhile, whatever becomes of
    the file and of the cache. To hold the descriptor alone is not enough.
    """

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self, length: int, position: int) -> bytes:
        """Up to `length` bytes from `position` on."""
        return os.pread(self.descriptor, length, position)

    def __del__(self) -> None:
        os.close(self.descriptor)


class OpenFiles:
    """The files that were read last, by path; any thread may ask.

    A file that was deleted stays readable for who has it already. It is let go when the next one is opened, so
    that its space comes back.
    """

    def __init__(self, count_max: int = OPEN_FILES_MAX) -> None:
        self._count_max = count_max
        self._files: OrderedDict[Path, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path, check: Callable[[int], None] | None = None) -> OpenFile:
        """The file at `path`, opened if it is not; OSError if it cannot be.

        `check` is called with the descriptor of one that is opened now, and may refuse it.
        """
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
                return file
        opened = OpenFile(os.open(path, os.O_RDONLY))
        if check is not None:
            check(opened.descriptor)
        with self._lock:
            file = self._files.setdefault(path, opened)
            self._drop_deleted()
            while len(self._files) > self._count_max:
                self._files.popitem(last=False)
            return file

    def forget(self, path: Path) -> None:
        """The path is no longer what it was: the next one who asks opens it anew."""
        with self._lock:
            self._files.pop(path, None)

    def drop_deleted(self) -> None:
        """Let go of files that are deleted, so that their space comes back even if nobody opens another."""
        with self._lock:
            self._drop_deleted()

    def close(self) -> None:
        """Let go of all of them; those who read at this moment end in peace."""
        with self._lock:
            self._files.clear()

    def _drop_deleted(self) -> None:
        for path, file in list(self._files.items()):
            if os.fstat(file.descriptor).st_nlink == 0:
                del self._files[path]
