"""How far a long job is: a bar on a terminal, a line every so often in a log."""

import logging
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

logger = logging.getLogger(__name__)

LINE_SECONDS = 10.0


class RoundProgress:
    """Shows bytes done of bytes to do; nothing is shown before there is something to do."""

    def __init__(self, what: str = "rewriting") -> None:
        self._what = what
        self._bar: Progress | None = None
        self._last_line = time.monotonic()
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn(what),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(what, total=None, visible=False)

    def __enter__(self) -> "RoundProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, done_bytes: int, total_bytes: int) -> None:
        """So many bytes are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done_bytes, total=total_bytes, visible=True)
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            logger.info("%s: %d of %d MB", self._what, done_bytes // 1_000_000, total_bytes // 1_000_000)
