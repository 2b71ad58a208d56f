"""Lineages and cleaned ranges: what is left of values after a truncation, and what counts as clean."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.lineage import Lineage, LineageHistory
from holdfast.rules.ranges import OffsetRange, clean_prefix, clipped, merged


def test_truncation_begins_a_lineage() -> None:
    """Each truncation is one lineage; a replica that missed several goes back to the lowest of them."""
    history = LineageHistory()
    for at in (90, 40, 70):
        history = history.truncate(at, leader_thinned_to=0)
    assert history.current == 4
    assert history.clip_since(Lineage(1)) == 40
    assert history.clip_since(Lineage(3)) == 70
    assert history.clip_since(Lineage(4)) is None


def test_log_that_was_compacted_past_a_truncation_is_rebuilt() -> None:
    """Truncating cannot bring back what was dropped for the sake of records that are cut off."""
    whole = LineageHistory().truncate(50, leader_thinned_to=50)
    assert whole.may_follow(Lineage(1), thinned_to=50)
    assert not whole.may_follow(Lineage(1), thinned_to=51)
    assert whole.may_follow(Lineage(2), thinned_to=51)
    compacted = LineageHistory().truncate(50, leader_thinned_to=51)
    assert not compacted.may_follow(Lineage(1), thinned_to=0)


ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=12).map(
    lambda pairs: [OffsetRange(start=start, end=start + length) for start, length in pairs]
)


def offsets(pieces: list[OffsetRange] | tuple[OffsetRange, ...]) -> set[int]:
    return {offset for piece in pieces for offset in range(piece.start, piece.end)}


@given(ranges, st.integers(0, 20))
def test_clean_prefix_is_the_first_gap(pieces: list[OffsetRange], log_start: int) -> None:
    """W9: offsets, not segments: all from the log start to the prefix is clean, the next offset is not."""
    cleaned = offsets(pieces)
    prefix = clean_prefix(pieces, log_start=log_start)
    assert all(offset in cleaned for offset in range(log_start, prefix))
    assert prefix not in cleaned
    assert prefix >= log_start


@given(ranges, st.integers(0, 45))
def test_merging_and_clipping_keep_the_offsets(pieces: list[OffsetRange], at: int) -> None:
    """Merged ranges hold the same offsets, in order and apart; clipped ones exactly those below."""
    whole = merged(pieces)
    assert offsets(whole) == offsets(pieces)
    assert all(one.end < other.start for one, other in pairwise(whole))
    assert offsets(clipped(pieces, at)) == {offset for offset in offsets(pieces) if offset < at}
