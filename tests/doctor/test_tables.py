"""Tables and traces of one replica: bounded, and honest about which marker decided what."""

import pytest

from holdfast.doctor.compare import KeyDifference
from holdfast.doctor.tables import KeyTable, Newest, Part, digest_of
from holdfast.doctor.traces import KeyTraces, variant_of
from holdfast.errors import KeyIndexFull
from holdfast.rules.entry import Entry
from holdfast.rules.transaction import Outcome
from tests.doctor.model_source import batch_of


def data(offset: int, key: str = "k", value: str | None = "v", *, epoch: int = 0) -> Entry:
    return Entry(offset=offset, key=key, value=value, producer_id=7, producer_epoch=epoch, transactional=True)


def marker(offset: int) -> Entry:
    return Entry(offset=offset, marker=Outcome.COMMITTED, producer_id=7, producer_epoch=0, transactional=True)


def test_a_table_is_bounded() -> None:
    """One key too many, and it has to be made in parts."""
    table = KeyTable(Part(), keys_max=2)
    table.feed([batch_of(data(0, "a")), batch_of(data(1, "b")), batch_of(data(2, "a"))], [])
    assert {key: newest.offset for key, newest in table.newest.items()} == {b"a": 2, b"b": 1}
    with pytest.raises(KeyIndexFull):
        table.feed([batch_of(data(3, "c"))], [])


@pytest.mark.parametrize(
    ("log", "variant"),
    [
        ([data(0), marker(1), data(9, "other"), marker(10)], "tombstone"),
        ([data(0), data(9, "other"), marker(10)], "aborted-to-committed"),
        ([data(0), data(1, "other"), marker(2)], "tombstone"),
        ([data(0), data(1, "other", epoch=1), marker(2)], "aborted-to-committed"),
        ([data(0), marker(9)], "aborted-to-committed"),
    ],
    ids=["its own marker", "after a gap", "one transaction", "another epoch", "only a late marker"],
)
def test_the_marker_that_decided_a_record_names_the_harm(log: list[Entry], variant: str) -> None:
    """One that may be another transaction's speaks for a lost outcome, any other for a lost delete."""
    traces = KeyTraces([b"k"])
    traces.feed([batch_of(entry) for entry in log], [])
    difference = KeyDifference(key=b"k", shown={1: None, 3: Newest(0, digest_of(b"v"))})
    assert traces.newest == {b"k": Newest(0, digest_of(b"v"))}
    assert variant_of(difference, 3, traces.by_key[b"k"]) == variant
