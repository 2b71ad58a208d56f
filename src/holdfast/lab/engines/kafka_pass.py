"""What is gone from a real replica's log, told from its history: brokers do not say why they drop something."""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.lab.engines.engine import SeenReplica
from holdfast.rules.entry import Entry
from holdfast.rules.policy import Fate
from holdfast.rules.transaction import Outcome


def gone(history: Sequence[Entry], replica: SeenReplica) -> Iterator[tuple[Fate, Entry]]:
    """Everything below the replica's log end that it does not hold, with the likely reason."""
    held = {entry.offset for entry in replica.entries if not entry.empty}
    below = [entry for entry in history if entry.offset < replica.high_watermark]
    outcomes = {entry.instance: entry.marker for entry in below if entry.marker is not None}
    newest = {
        entry.key: entry.offset for entry in below if entry.marker is None and not _is_void(entry, outcomes)
    }
    for entry in below:
        if entry.offset not in held:
            yield _fate(entry, outcomes, newest), entry


def _is_void(entry: Entry, outcomes: Mapping[int, Outcome]) -> bool:
    return entry.transactional and outcomes.get(entry.instance) is not Outcome.COMMITTED


def _fate(entry: Entry, outcomes: Mapping[int, Outcome], newest: Mapping[str | None, int]) -> Fate:
    if entry.marker is not None:
        return Fate.OUTCOME
    if _is_void(entry, outcomes):
        return Fate.ABORTED
    return Fate.TOMBSTONE if newest[entry.key] == entry.offset else Fate.SHADOWED
