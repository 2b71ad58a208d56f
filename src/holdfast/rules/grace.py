"""How long consumers had to see a tombstone, counted from when every replica was clean past it."""

from dataclasses import dataclass, replace

ENTRIES_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """When the removal offset first covered which offsets, on one replica's grace clock, within one lineage.

    Entries are (end, since_ms), both ascending: everything below `end` was covered at `since_ms`. Joining two
    entries keeps the later time, so a shortened history can prolong a grace but never cut it.
    """

    entries: tuple[tuple[int, int], ...] = ()

    def cover(self, end: int, now_ms: int) -> "Coverage":
        """The removal offset is `end` as of `now_ms`; no news if it already was."""
        if self.entries and end <= self.entries[-1][0]:
            return self
        if end <= 0:
            return self
        return replace(self, entries=_bounded((*self.entries, (end, now_ms))))

    def since(self, offset: int) -> int | None:
        """When `offset` was first covered; None while it is not."""
        return next((since_ms for end, since_ms in self.entries if offset < end), None)

    def expired(self, now_ms: int, retention_ms: int) -> int:
        """The offset below which every tombstone has had its grace since all replicas were clean past it."""
        result = 0
        for end, since_ms in self.entries:
            if since_ms + retention_ms > now_ms:
                break
            result = end
        return result

    def due(self, offset: int, retention_ms: int) -> int | None:
        """When a tombstone at `offset` may go: the deadline of a clean, idle log that begins with it."""
        since_ms = self.since(offset)
        return None if since_ms is None else since_ms + retention_ms

    def pruned(self, now_ms: int, retention_ms: int) -> "Coverage":
        """Entries whose grace is over, as one."""
        over = [entry for entry in self.entries if entry[1] + retention_ms <= now_ms]
        return replace(self, entries=self.entries[len(over) - 1 :]) if len(over) > 1 else self

    def clipped(self, at: int) -> "Coverage":
        """What still holds after a truncation to `at`; times stay as they were."""
        below = tuple(entry for entry in self.entries if entry[0] < at)
        straddling = next((since_ms for end, since_ms in self.entries if end >= at), None)
        if straddling is None or at <= 0:
            return replace(self, entries=below)
        return replace(self, entries=(*below, (at, straddling)))


NOTHING_COVERED = Coverage()


def _bounded(entries: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """At most ENTRIES_MAX entries: the one that stands most crowded in time is joined to the next, later one.

    Never the first: under a steady advance that would push the oldest grace ahead for ever.
    """
    if len(entries) <= ENTRIES_MAX:
        return entries
    inner = range(1, len(entries) - 1)
    crowded = min(inner, key=lambda index: entries[index + 1][1] - entries[index - 1][1])
    return entries[:crowded] + entries[crowded + 1 :]
