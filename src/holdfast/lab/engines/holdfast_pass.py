"""What a round has done to a replica, told from its files before and after it."""

from collections.abc import Mapping, Sequence

from holdfast.rules.entry import Entry
from holdfast.rules.policy import Fate, Pass
from holdfast.rules.transaction import Outcome


def compare(before: Sequence[Entry], outcomes: Mapping[int, Outcome | None], after: Sequence[Entry]) -> Pass:
    """The fate of every record that is gone; `outcomes` of those in transactions, by offset."""
    newest = {
        entry.key: entry.offset
        for entry in before
        if outcomes.get(entry.offset, Outcome.COMMITTED) is Outcome.COMMITTED
    }
    left = {entry.offset for entry in after}
    gone = [entry for entry in before if entry.offset not in left]
    return Pass(entries=list(after), fates=[(_fate(entry, outcomes, newest), entry) for entry in gone])


def _fate(entry: Entry, outcomes: Mapping[int, Outcome | None], newest: Mapping[str | None, int]) -> Fate:
    if outcomes.get(entry.offset) is Outcome.ABORTED:
        return Fate.ABORTED
    return Fate.SHADOWED if newest[entry.key] > entry.offset else Fate.TOMBSTONE
