"""The truth beside a random schedule: a log that is never compacted, and what its readers see."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.rules.entry import Entry
from holdfast.rules.transaction import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What is true up to one high watermark."""

    last_stable_offset: int
    newest: dict[str, Entry]
    """Each key's newest committed record below the LSO, tombstones included."""
    table: dict[str, str]
    """What a read_committed reader ends up with."""
    outcomes: dict[int, Outcome]
    """How every instance stands; one that is not in here is open."""


class Oracle:
    """Answers from the history; remembers the last answer, because most steps write nothing."""

    def __init__(self, history: Sequence[Entry]) -> None:
        self._history = history
        self._key: tuple[int, int, Entry | None] = (-1, -1, None)
        self._snapshot: Snapshot | None = None

    def at(self, high_watermark: int) -> Snapshot:
        """The truth up to `high_watermark`."""
        history = self._history
        key = (high_watermark, len(history), history[-1] if history else None)
        if self._snapshot is None or self._key[:2] != key[:2] or self._key[2] is not key[2]:
            self._snapshot = _snapshot(history, high_watermark)
            self._key = key
        return self._snapshot


def _snapshot(history: Sequence[Entry], high_watermark: int) -> Snapshot:
    outcomes: dict[int, Outcome] = {}
    for entry in history:
        if entry.marker is not None and entry.offset < high_watermark:
            outcomes[entry.instance] = entry.marker
    stable = high_watermark
    newest: dict[str, Entry] = {}
    for entry in history:
        if entry.offset >= high_watermark:
            break
        if entry.marker is not None:
            continue
        if entry.transactional:
            outcome = outcomes.get(entry.instance)
            if outcome is None:
                stable = entry.offset
                break
            if outcome is Outcome.ABORTED:
                continue
        assert entry.key is not None
        newest[entry.key] = entry
    table = {key: entry.value for key, entry in newest.items() if entry.value is not None}
    return Snapshot(last_stable_offset=stable, newest=newest, table=table, outcomes=outcomes)
