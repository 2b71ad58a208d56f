"""What a reader sees of a partition on Holdfast, where every transactional batch needs a positive outcome."""

from collections.abc import Iterable, Iterator

from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.transaction import Instances, Outcome


def readable_end(isolation: Isolation, *, high_watermark: int, last_stable_offset: int) -> int:
    """The offset that a consumer of this isolation level never passes."""
    return last_stable_offset if isolation is Isolation.READ_COMMITTED else high_watermark


def visible(
    entries: Iterable[Entry], *, end: int, instances: Instances, isolation: Isolation
) -> Iterator[Entry]:
    """The data entries below `end` that a consumer is given, in offset order.

    Raises OutcomeMissing where a transactional batch has no outcome: a loud stop, never a guess.
    """
    committed_only = isolation is Isolation.READ_COMMITTED
    for entry in entries:
        if entry.offset >= end:
            return
        if entry.marker is not None or entry.empty:
            continue
        if (
            committed_only
            and entry.transactional
            and instances.outcome(entry.instance) is not Outcome.COMMITTED
        ):
            continue
        yield entry


def table(visible_entries: Iterable[Entry]) -> dict[str, Entry]:
    """Each key's newest entry, deleted keys left out: what a reader from the beginning ends up with."""
    newest: dict[str, Entry] = {}
    for entry in visible_entries:
        if entry.key is None:
            continue
        if entry.value is None:
            newest.pop(entry.key, None)
        else:
            newest[entry.key] = entry
    return newest
