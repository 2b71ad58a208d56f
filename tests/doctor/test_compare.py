"""The comparison alone: what is a difference, who is blamed, and what is left out because somebody may be behind."""

from holdfast.doctor.compare import OpenTransactions, View, differing_keys, differing_transactions
from holdfast.doctor.tables import Newest, Part

A, B = b"a-digest", b"b-digest"


def view(replica: int, newest: dict[bytes, Newest], *, start: int = 0, end: int = 100) -> View:
    return View(replica=replica, start=start, end=end, newest=newest)


def test_a_delete_is_the_same_as_nothing() -> None:
    """One replica has dropped the tombstone, the other still has it."""
    assert differing_keys([view(1, {b"k": Newest(5, None)}), view(2, {})]) == []


def test_a_value_beside_a_delete_is_the_one_that_is_wrong() -> None:
    """Also where two replicas show it: they may both have been away."""
    (found,) = differing_keys([view(1, {}), view(2, {b"k": Newest(5, A)}), view(3, {b"k": Newest(5, A)})])
    assert (found.blamed, found.right) == ([2, 3], [1])


def test_of_two_values_the_older_is_wrong() -> None:
    """And of two at one offset the rarer."""
    (found,) = differing_keys([view(1, {b"k": Newest(7, B)}), view(2, {b"k": Newest(5, A)})])
    assert found.blamed == [2]
    same = [view(number, {b"k": Newest(5, B if number == 2 else A)}) for number in (1, 2, 3)]
    assert differing_keys(same)[0].blamed == [2]


def test_what_others_may_not_have_heard_of_is_left_out() -> None:
    """A record at or after the earliest end, before which its holder may have dropped an older one."""
    ahead = view(1, {b"k": Newest(50, A)}, end=60)
    assert differing_keys([ahead, view(2, {b"k": Newest(5, A)}, end=50)]) == []
    assert len(differing_keys([ahead, view(2, {b"k": Newest(5, A)}, end=51)])) == 1


def test_what_retention_takes_is_left_out() -> None:
    """Before the latest log start, where one of them may have nothing any more."""
    old = view(1, {b"k": Newest(5, A)})
    assert differing_keys([old, view(2, {}, start=6)]) == []
    assert len(differing_keys([old, view(2, {}, start=5)])) == 1


def opened(replica: int, starts: dict[int, int], *, end: int = 100) -> OpenTransactions:
    return OpenTransactions(replica=replica, end=end, starts=starts)


def test_a_transaction_that_only_one_holds_for_open() -> None:
    """It is a difference unless a coordinator knows it, or the other has not come so far."""
    mine, other = opened(3, {7: 10}), opened(1, {})
    (found,) = differing_transactions([other, mine], set())
    assert (found.replica, found.producer_id, found.start, found.others) == (3, 7, 10, (1,))
    assert differing_transactions([other, mine], {7}) == []
    assert differing_transactions([opened(1, {}, end=10), mine], set()) == []
    assert differing_transactions([opened(1, {7: 10}), mine], set()) == []


def test_a_transaction_that_reaches_further_back() -> None:
    """Though its producer has one open that everybody knows."""
    (found,) = differing_transactions([opened(1, {7: 50}), opened(3, {7: 10})], {7})
    assert (found.replica, found.start) == (3, 10)


def test_parts_split_all_keys_between_them() -> None:
    """Every key is in exactly one part, however often they are halved."""
    parts = [Part()]
    for _ in range(5):
        parts = [half for part in parts for half in part.halves()]
    for number in range(1000):
        assert sum(part.holds(str(number).encode()) for part in parts) == 1
