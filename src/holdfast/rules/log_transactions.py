"""A replica's account of transaction instances, built from a log in which outcomes stand as markers.

Each marker decides the one instance that it names. So a lost marker is seen, in one of two ways: the
producer's next instance begins while this one has no outcome, or the leader is past it and can send no more.
"""

from holdfast.errors import OutcomeMissing
from holdfast.rules.entry import Entry
from holdfast.rules.lso import UnstableTransactions
from holdfast.rules.transaction import Instances, Outcome


class LogTransactions:
    """Instances and unstable offsets of one replica."""

    __slots__ = ("_open_by_producer", "instances", "unstable")

    def __init__(self) -> None:
        self.instances = Instances()
        self.unstable = UnstableTransactions()
        self._open_by_producer: dict[int, int] = {}

    def append(self, entry: Entry) -> None:
        """Follow one batch; OutcomeMissing if it shows that an earlier outcome never came."""
        if entry.marker is not None:
            self._append_marker(entry, entry.marker)
        elif entry.transactional:
            open_instance = self._open_by_producer.setdefault(entry.producer_id, entry.instance)
            if open_instance != entry.instance:
                raise OutcomeMissing(
                    f"producer {entry.producer_id} goes on at offset {entry.offset} with instance "
                    f"{entry.instance}, but how its instance {open_instance} ended is unknown"
                )
            if self.instances.join(entry.instance, entry.offset):
                self.unstable.begin(entry.offset)

    def _append_marker(self, entry: Entry, outcome: Outcome) -> None:
        # Without data of its instance a marker decides nothing here: all of it was settled at the source.
        if entry.instance in self.instances:
            self.unstable.end(self.instances.decide(entry.instance, outcome), entry.offset)
            self._open_by_producer.pop(entry.producer_id, None)

    def require_decided(self, end: int) -> None:
        """OutcomeMissing if an instance that begins below `end` is still without an outcome."""
        first_open = self.unstable.first_open()
        if first_open is not None and first_open < end:
            raise OutcomeMissing(
                f"the transaction at offset {first_open} was decided, but its outcome is gone"
            )
