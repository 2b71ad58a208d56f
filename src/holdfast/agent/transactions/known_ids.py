"""Which transactional ids a process has seen from the start of their present transaction."""

from collections import OrderedDict

IDS_MAX = 100_000


class KnownIds:
    """Ids whose present transaction, if there is one, began under the eyes of this process; the latest IDS_MAX.

    One that was seen longer ago counts as unknown again, as after a restart. Names may be long, so their hashes are
    kept: if two were alike, a producer that has lived through a restart would have to abort once.
    """

    def __init__(self) -> None:
        self._hashes: OrderedDict[int, None] = OrderedDict()

    def add(self, transactional_id: str) -> None:
        """A transaction of it has ended, or its producer was given it."""
        self._hashes[hash(transactional_id)] = None
        self._hashes.move_to_end(hash(transactional_id))
        if len(self._hashes) > IDS_MAX:
            self._hashes.popitem(last=False)

    def has(self, transactional_id: str) -> bool:
        """Whether that was seen."""
        return hash(transactional_id) in self._hashes
