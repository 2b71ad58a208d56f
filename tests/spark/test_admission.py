"""How micro-batches are bounded."""

from hypothesis import given
from hypothesis import strategies as some

from holdfast.client.groups import TopicPartition
from holdfast.spark.admission import admit, offsets_for_bytes

PLACES = [TopicPartition("t", number) for number in range(4)]

waiting = some.lists(some.integers(0, 1_000), min_size=4, max_size=4)


@given(waiting, some.integers(1, 5_000))
def test_as_much_as_is_allowed_and_no_more(counts: list[int], offsets_max: int) -> None:
    """Nobody gets more than waits there, and nothing that could be taken is left."""
    starts = dict.fromkeys(PLACES, 100)
    ends = {place: 100 + count for place, count in zip(PLACES, counts, strict=True)}
    admitted = admit(starts, ends, offsets_max=offsets_max)
    taken = [admitted[place] - starts[place] for place in PLACES]
    assert sum(taken) == min(sum(counts), offsets_max)
    assert all(0 <= share <= count for share, count in zip(taken, counts, strict=True))


def test_shares_are_in_proportion() -> None:
    """A partition with ten times as much waiting gets ten times as much."""
    starts = dict.fromkeys(PLACES[:2], 0)
    assert admit(starts, {PLACES[0]: 1_000, PLACES[1]: 100}, offsets_max=110) == {
        PLACES[0]: 100,
        PLACES[1]: 10,
    }


def test_bytes_become_offsets() -> None:
    """By the mean size of records; one offset at least, or a large record would hold the stream up for ever."""
    starts, ends = {PLACES[0]: 0, PLACES[1]: 50}, {PLACES[0]: 100, PLACES[1]: 150}
    sizes = {PLACES[0]: 10.0, PLACES[1]: 30.0}
    assert offsets_for_bytes(starts, ends, sizes, bytes_max=400) == 20
    assert offsets_for_bytes(starts, ends, sizes, bytes_max=1) == 1
    assert offsets_for_bytes(starts, ends, sizes, bytes_max=10**6) == 200
