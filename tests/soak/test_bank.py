"""The auditor's arithmetic: true books pass, and wrong ones are named."""

import pytest

from soak import bank
from soak.bank import Desk, Entry

DESK = Desk(teller="t0", topic="bank", partitions=2)


def transfer(name: str, *balances: int, teller: str = "t0") -> list[bytes]:
    """New balances of the first accounts."""
    return [
        Entry(teller, name, number, len(balances), f"{teller}-{number}", balance).encode()
        for number, balance in enumerate(balances)
    ]


OPENING = transfer("open", *[100] * bank.ACCOUNTS)


def rules(values: list[bytes], *, is_final: bool = False) -> list[str]:
    return [violation.rule for violation in bank.check_totals("a", values, is_final=is_final)]


def test_an_entry_is_read_as_it_was_written() -> None:
    """With everything an auditor needs."""
    entry = Entry("t0", "t0.1.7", 0, 2, "t0-3", -12)
    assert Entry.decode(entry.encode()) == entry


def test_accounts_of_a_transfer_lie_apart() -> None:
    """Even ones in one partition, odd ones in the other."""
    assert [DESK.place_of(account).partition for account in DESK.accounts] == [0, 1] * 3


def test_true_books_pass() -> None:
    """Interleaved with another teller's, and with a transfer of which only the beginning is here yet."""
    first, second = transfer("a", 90, 110), transfer("b", 80, 120)
    other = transfer("open", *[100] * bank.ACCOUNTS, teller="t1")
    assert not rules([*OPENING, first[0], *other, first[1], second[0]])
    assert not rules([*OPENING, first[0], second[0], first[1], second[1]], is_final=True)


def test_a_wrong_total_is_named() -> None:
    """A balance that nobody else's change makes up for."""
    assert rules([*OPENING, *transfer("a", 90, 111)]) == [bank.TOTAL]


def test_a_lost_transfer_shows_in_the_next() -> None:
    """Account 2 gave ten to account 0, and nobody saw that."""
    assert rules([*OPENING, *transfer("b", 100, 110)]) == [bank.TOTAL]


@pytest.mark.parametrize("seen", [0, 1])
def test_half_a_transfer_is_named(seen: int) -> None:
    """When the next overtakes it, and at the end."""
    first, second = transfer("a", 90, 110), transfer("b", 90, 110)
    assert rules([*OPENING, first[seen], *second]) == [bank.HALF]
    assert not rules([*OPENING, first[seen]])
    assert rules([*OPENING, first[seen]], is_final=True) == [bank.HALF]
