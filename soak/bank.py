"""Accounts, what a transfer writes, and what an auditor must see: pure.

Every teller has accounts of its own, and moves money between these alone. So the sum of a teller's accounts is
the same after each of its transfers, whatever the others are in the middle of. A transfer counts for the
auditor once it has seen all of it: in one partition when its last record has come, in two when both halves have.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from soak.history import Violation
from soak.txn_history import Place

TOTAL = "total"
HALF = "half"

ACCOUNTS = 6
OPENING_BALANCE = 100


class Entry(NamedTuple):
    """One account's new balance, as one of the `records` of a transfer."""

    teller: str
    transfer: str
    number: int
    records: int
    account: str
    balance: int

    def encode(self) -> bytes:
        """As a record's value."""
        return "|".join(map(str, self)).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """From a record's value."""
        teller, transfer, number, records, account, balance = value.decode().split("|")
        return cls(teller, transfer, int(number), int(records), account, int(balance))


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A teller's accounts, and where they are kept."""

    teller: str
    topic: str
    partitions: int

    @property
    def accounts(self) -> list[str]:
        """By number."""
        return [f"{self.teller}-{number}" for number in range(ACCOUNTS)]

    @property
    def places(self) -> list[Place]:
        """All partitions of the bank."""
        return [Place(self.topic, partition) for partition in range(self.partitions)]

    def place_of(self, account: str) -> Place:
        """Accounts of even and of odd number lie apart if there are two partitions."""
        return Place(self.topic, int(account.rpartition("-")[2]) % self.partitions)

    def opening_balances(self) -> dict[str, int]:
        """What the first transaction writes."""
        return dict.fromkeys(self.accounts, OPENING_BALANCE)


def check_totals(auditor: str, values: Iterable[bytes], *, is_final: bool = False) -> Iterator[Violation]:
    """After each transfer that was seen whole its teller's total is what it was; no transfer stays a half.

    A teller's transfers come one after the other in every partition: of one that is overtaken by the next,
    the rest will never come. `is_final`: there is no more to come of any.
    """
    parts: dict[str, dict[str, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    balances: dict[str, dict[str, int]] = defaultdict(dict)
    for value in values:
        entry = Entry.decode(value)
        open_transfers = parts[entry.teller]
        entries = open_transfers[entry.transfer]
        entries.append(entry)
        if len(entries) < entry.records:
            continue
        for overtaken in list(open_transfers)[: list(open_transfers).index(entry.transfer)]:
            yield _half(auditor, overtaken, open_transfers.pop(overtaken), f"overtaken by {entry.transfer}")
        del open_transfers[entry.transfer]
        balances[entry.teller].update({each.account: each.balance for each in entries})
        yield from _check_total(auditor, entry, balances[entry.teller])
    if is_final:
        for open_transfers in parts.values():
            for transfer, entries in open_transfers.items():
                yield _half(auditor, transfer, entries, "at the end")


def _check_total(auditor: str, entry: Entry, balances: dict[str, int]) -> Iterator[Violation]:
    total, expected = sum(balances.values()), ACCOUNTS * OPENING_BALANCE
    if total != expected:
        yield Violation(
            TOTAL,
            f"{auditor} counts {total} instead of {expected} with {entry.teller} after {entry.transfer}: {balances}",
        )


def _half(auditor: str, transfer: str, entries: Sequence[Entry], when: str) -> Violation:
    return Violation(
        HALF, f"{auditor} saw {len(entries)} of {entries[0].records} records of {transfer}, {when}"
    )
