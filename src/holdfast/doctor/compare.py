"""The comparison itself: pure, and true only of what every replica has had the time to hear of.

Everything here is a suspicion. It becomes a finding when it is still there after every replica's high watermark has
passed the highest log end that was seen at the first look (`examine.py`): until then it may be replication lag.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from holdfast.doctor.tables import Newest

Replica = int | str
"""A broker's number, or the name of a copied directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one replica shows of some keys, read from `start` up to but not including `end`."""

    replica: Replica
    start: int
    end: int
    newest: Mapping[bytes, Newest]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """A key that reads differently through different replicas; None where it is deleted or was never there."""

    key: bytes
    shown: Mapping[Replica, Newest | None]

    @property
    def blamed(self) -> list[Replica]:
        """Who is wrong, by the way in which such differences come about.

        No cleaner brings a value back, so a value beside a delete is one that outlived it; and of two values the
        older outlived the newer. How many replicas say so proves nothing: two may have been away.
        """
        present = {replica: newest for replica, newest in self.shown.items() if newest is not None}
        if len(present) < len(self.shown):
            return list(present)
        last = max(newest.offset for newest in present.values())
        behind = [replica for replica, newest in present.items() if newest.offset < last]
        if behind:
            return behind
        usual, _ = Counter(newest.digest for newest in present.values()).most_common(1)[0]
        return [replica for replica, newest in present.items() if newest.digest != usual]

    @property
    def right(self) -> list[Replica]:
        """The others."""
        blamed = self.blamed
        return [replica for replica in self.shown if replica not in blamed]


def differing_keys(views: Sequence[View]) -> list[KeyDifference]:
    """The keys that replicas show differently, as far as all of them were read; by key.

    Left out is what lies before the latest log start, which retention takes when it likes, and every key that one of
    them has a record of at or after the earliest end: others may not have heard of that one, and its holder may
    have dropped what stood before it.
    """
    if len(views) < 2:
        return []
    start, end = max(view.start for view in views), min(view.end for view in views)
    found = []
    for key in sorted({key for view in views for key in view.newest}):
        newest = {view.replica: view.newest.get(key) for view in views}
        if any(each is not None and each.offset >= end for each in newest.values()):
            continue
        shown = {replica: _state(each, start) for replica, each in newest.items()}
        if len(set(shown.values())) > 1:
            found.append(KeyDifference(key=key, shown=shown))
    return found


def _state(newest: Newest | None, start: int) -> Newest | None:
    """A delete that is still there is the same as one that has gone."""
    return None if newest is None or newest.digest is None or newest.offset < start else newest


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """The transactions that one replica holds for undecided: the first offset of each, by producer."""

    replica: Replica
    end: int
    """The replica's log end, or a later one."""
    starts: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDifference:
    """A transaction that one replica holds for open from `start` on, and others do not."""

    replica: Replica
    producer_id: int
    start: int
    others: tuple[Replica, ...]


def differing_transactions(
    replicas: Sequence[OpenTransactions], coordinated: Collection[int]
) -> list[OpenDifference]:
    """Transactions that are open on one replica alone.

    `coordinated` are the producers with a transaction that a coordinator knows. Theirs may be between its outcome and
    its markers, so one that others do not have is no difference; but one that begins earlier than others have it is.
    """
    found = []
    for mine in replicas:
        for producer_id, start in sorted(mine.starts.items()):
            others = [
                other for other in replicas if other.end > start and other.starts.get(producer_id) != start
            ]
            if producer_id in coordinated:
                others = [other for other in others if other.starts.get(producer_id, -1) > start]
            if others:
                found.append(
                    OpenDifference(
                        replica=mine.replica,
                        producer_id=producer_id,
                        start=start,
                        others=tuple(other.replica for other in others),
                    )
                )
    return found
