"""What readers see when every transactional batch needs a positive outcome."""

import pytest

from holdfast.errors import OutcomeMissing
from holdfast.rules.entry import Entry, Isolation
from holdfast.rules.transaction import Instances, Outcome
from holdfast.rules.visibility import readable_end, table, visible


def entries() -> list[Entry]:
    return [
        Entry(offset=0, key="a", value="1"),
        Entry(offset=1, key="b", value="2", transactional=True, producer_id=7, instance=1),
        Entry(offset=2, key="c", value="3", transactional=True, producer_id=8, instance=2),
        Entry(offset=3, marker=Outcome.COMMITTED, transactional=True, producer_id=7, instance=1),
        Entry(offset=4, marker=Outcome.ABORTED, transactional=True, producer_id=8, instance=2),
        Entry(offset=5, key="a", value=None),
    ]


def decided() -> Instances:
    instances = Instances()
    instances.join(1, 1)
    instances.join(2, 2)
    instances.decide(1, Outcome.COMMITTED)
    instances.decide(2, Outcome.ABORTED)
    return instances


def offsets(isolation: Isolation, end: int = 6) -> list[int]:
    seen = visible(entries(), end=end, instances=decided(), isolation=isolation)
    return [entry.offset for entry in seen]


def test_read_committed_leaves_out_aborted_data_and_markers() -> None:
    """Committed and plain data come through; aborted data and control batches do not."""
    assert offsets(Isolation.READ_COMMITTED) == [0, 1, 5]


def test_read_uncommitted_sees_all_data() -> None:
    """Aborted data is visible to those who ask for it; control batches never are."""
    assert offsets(Isolation.READ_UNCOMMITTED) == [0, 1, 2, 5]


def test_nothing_at_or_above_the_end_is_shown() -> None:
    """The end is exclusive; read_committed ends at the LSO, read_uncommitted at the high watermark."""
    assert offsets(Isolation.READ_UNCOMMITTED, end=2) == [0, 1]
    assert readable_end(Isolation.READ_COMMITTED, high_watermark=9, last_stable_offset=4) == 4
    assert readable_end(Isolation.READ_UNCOMMITTED, high_watermark=9, last_stable_offset=4) == 9


def test_a_missing_outcome_is_a_loud_stop() -> None:
    """read_committed raises rather than guess; read_uncommitted does not need to know."""
    with pytest.raises(OutcomeMissing):
        list(visible(entries(), end=6, instances=Instances(), isolation=Isolation.READ_COMMITTED))
    assert list(visible(entries(), end=6, instances=Instances(), isolation=Isolation.READ_UNCOMMITTED))


def test_a_table_keeps_the_newest_and_drops_the_deleted() -> None:
    """Reading from the beginning gives each key's last value; a tombstone removes its key."""
    seen = visible(entries(), end=6, instances=decided(), isolation=Isolation.READ_COMMITTED)
    assert {key: entry.value for key, entry in table(seen).items()} == {"b": "2"}
