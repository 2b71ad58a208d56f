"""The last stable offset."""

from holdfast.rules.lso import UnstableTransactions, last_stable_offset


def test_without_open_transactions_it_is_the_high_watermark() -> None:
    """Nothing undecided holds it back, and nothing lifts it above the high watermark."""
    assert last_stable_offset(9, None) == 9
    assert last_stable_offset(9, 12) == 9


def test_the_oldest_open_transaction_holds_it() -> None:
    """The first offset of the oldest undecided transaction is the LSO."""
    unstable = UnstableTransactions()
    unstable.begin(3)
    unstable.begin(5)
    assert last_stable_offset(9, unstable.first()) == 3
    unstable.end(3, 7)
    unstable.replicated_to(8)
    assert last_stable_offset(9, unstable.first()) == 5


def test_an_outcome_counts_only_below_the_high_watermark() -> None:
    """A marker that may still be truncated away does not move the LSO."""
    unstable = UnstableTransactions()
    unstable.begin(3)
    unstable.end(3, 7)
    unstable.replicated_to(7)
    assert unstable.first() == 3
    unstable.replicated_to(8)
    assert unstable.first() is None
