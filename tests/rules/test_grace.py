"""Grace: since when a removal offset covers what."""

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.rules.grace import ENTRIES_MAX, NOTHING_COVERED, Coverage


def test_grace_runs_from_the_first_cover() -> None:
    """W2: an offset's grace starts when the removal offset first passed it, not when it is told again."""
    coverage = NOTHING_COVERED.cover(10, 100).cover(10, 500).cover(20, 900)
    assert coverage.since(9) == 100
    assert coverage.since(10) == 900
    assert coverage.since(20) is None
    assert coverage.expired(1_099, retention_ms=1_000) == 0
    assert coverage.expired(1_100, retention_ms=1_000) == 10
    assert coverage.expired(1_900, retention_ms=1_000) == 20


def test_deadline_of_an_idle_log() -> None:
    """W3: a clean log knows when its first tombstone is due, and that an uncovered one has no date yet."""
    coverage = NOTHING_COVERED.cover(10, 100)
    assert coverage.due(3, retention_ms=50) == 150
    assert coverage.due(10, retention_ms=50) is None


def test_truncation_clips_the_history() -> None:
    """What was covered below the truncation point keeps its time; nothing is covered above it."""
    coverage = NOTHING_COVERED.cover(10, 1).cover(20, 2).cover(30, 3).clipped(15)
    assert (coverage.since(9), coverage.since(14), coverage.since(15)) == (1, 2, None)
    assert NOTHING_COVERED.cover(10, 1).clipped(0) == NOTHING_COVERED
    assert NOTHING_COVERED.cover(10, 1).clipped(50) == NOTHING_COVERED.cover(10, 1)


covers = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), max_size=200)


@settings(max_examples=200)
@given(covers, st.integers(0, 10_000))
def test_shortened_history_never_cuts_a_grace(steps: list[tuple[int, int]], retention_ms: int) -> None:
    """Against the full record, bounding and pruning may prolong a grace but never shorten one."""
    coverage, full, end, now_ms = NOTHING_COVERED, {}, 0, 0
    for rise, wait_ms in steps:
        now_ms += wait_ms
        full.update(dict.fromkeys(range(end, end + rise), now_ms))
        end += rise
        coverage = coverage.cover(end, now_ms)
        if end % 7 == 0:
            coverage = coverage.pruned(now_ms, retention_ms)
    assert len(coverage.entries) <= ENTRIES_MAX
    for offset, since_ms in full.items():
        kept = coverage.since(offset)
        assert kept is not None
        assert kept >= since_ms
    for now in (now_ms, now_ms + retention_ms):
        expired = coverage.expired(now, retention_ms)
        assert all(full[offset] + retention_ms <= now for offset in range(expired))


def test_history_of_steady_advance_still_expires() -> None:
    """A removal offset that rises all day long does not push its own grace ahead for ever."""
    coverage = NOTHING_COVERED
    for minute in range(2_000):
        coverage = coverage.cover(minute + 1, minute).pruned(minute, retention_ms=1_440)
    assert coverage.expired(2_000, retention_ms=1_440) > 400
    assert isinstance(coverage, Coverage)
