"""The last stable offset (LSO): below it, every transaction is decided and every replica in sync agrees."""


def last_stable_offset(high_watermark: int, first_unstable: int | None) -> int:
    """The LSO, given the first offset that belongs to an unstable transaction, if there is one."""
    if first_unstable is None or first_unstable > high_watermark:
        return high_watermark
    return first_unstable


class UnstableTransactions:
    """Transactions that hold the LSO back: the open, and the ended whose outcome lies at or above the HW.

    An outcome above the high watermark may still be truncated away, so it does not count yet (Kafka's
    "unreplicated" transactions).
    """

    __slots__ = ("_ending", "_open")

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._ending: dict[int, int] = {}

    def begin(self, first_offset: int) -> None:
        """A transaction's first batch arrived."""
        self._open.add(first_offset)

    def end(self, first_offset: int, outcome_offset: int) -> None:
        """Its outcome arrived, but may not be replicated yet."""
        self._open.discard(first_offset)
        self._ending[first_offset] = outcome_offset

    def replicated_to(self, high_watermark: int) -> None:
        """Outcomes below the high watermark are final."""
        if self._ending:
            self._ending = {
                first: outcome for first, outcome in self._ending.items() if outcome >= high_watermark
            }

    def first(self) -> int | None:
        """The lowest offset of an unstable transaction."""
        lowest = min(self._open, default=None)
        if self._ending:
            ending = min(self._ending)
            return ending if lowest is None else min(lowest, ending)
        return lowest

    def first_open(self) -> int | None:
        """The lowest offset of a transaction without any outcome."""
        return min(self._open, default=None)
