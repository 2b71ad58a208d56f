"""Entries in few words, for tests of the rules."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.rules.entry import Entry
from holdfast.rules.policy import LogView, Segment
from holdfast.rules.transaction import Outcome


class Log:
    """Builds a log record by record; offsets count up by themselves."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.next_offset = 0

    def _add(self, entry: Entry) -> Entry:
        self.entries.append(entry)
        self.next_offset = entry.offset + 1
        return entry

    def data(self, key: str, value: str | None, **more: Any) -> Entry:
        """A plain record."""
        return self._add(Entry(offset=self.next_offset, key=key, value=value, **more))

    def txn(self, key: str, value: str | None, *, pid: int = 7, epoch: int = 0, instance: int = 1) -> Entry:
        """A record in a transaction."""
        return self._add(
            Entry(
                offset=self.next_offset,
                key=key,
                value=value,
                producer_id=pid,
                producer_epoch=epoch,
                transactional=True,
                instance=instance,
            )
        )

    def end(self, outcome: Outcome, *, pid: int = 7, epoch: int = 0, instance: int = 1) -> Entry:
        """A transaction's marker."""
        marker = Entry(
            offset=self.next_offset,
            marker=outcome,
            producer_id=pid,
            producer_epoch=epoch,
            transactional=True,
            instance=instance,
        )
        return self._add(marker)

    def empty(self, entry: Entry) -> Entry:
        """Replace an entry by its empty header."""
        hollow = replace(entry, empty=True, key=None, value=None)
        self.entries[self.entries.index(entry)] = hollow
        return hollow

    def view(
        self, *, now_ms: int = 0, first_dirty: int = 0, lso: int | None = None, segment_batches: int = 1
    ) -> LogView:
        """The log as a policy sees it; every batch but the last closes a segment unless told otherwise."""
        segments: list[Segment] = []
        for entry in self.entries:
            if entry.offset < first_dirty:
                continue
            if not segments or segments[-1].batches == segment_batches:
                stamp = entry.timestamp_ms
                segments.append(
                    Segment(base=entry.offset, first_timestamp_ms=stamp, largest_timestamp_ms=stamp)
                )
            segments[-1].batches += 1
            segments[-1].largest_timestamp_ms = max(segments[-1].largest_timestamp_ms, entry.timestamp_ms)
        active = Segment(base=self.next_offset, first_timestamp_ms=now_ms, largest_timestamp_ms=now_ms)
        return LogView(
            entries=self.entries,
            segments=[*segments, active],
            first_dirty=first_dirty,
            last_stable_offset=self.next_offset if lso is None else lso,
            now_ms=now_ms,
        )


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()
