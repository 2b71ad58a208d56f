"""Which of what a query has read is not there any more, and what checkpoints keep of it."""

import re

import pytest

from holdfast.client.groups import TopicPartition
from holdfast.spark.standing import Standing, StreamOffset, find_lost, parse_offset, tell_offset


def standing(topic_id: str | None = None, **ends: int) -> Standing:
    """Partitions as `a0=7`: topic a, partition 0; the id is that of topic a."""
    return Standing(
        positions={TopicPartition(name[0], int(name[1:])): end for name, end in ends.items()},
        ids={} if topic_id is None else {"a": topic_id},
    )


@pytest.mark.parametrize(
    ("stood", "found", "lost"),
    [
        (standing(a0=7, a1=0), standing(a0=7, a1=3, a2=9, b0=1), None),
        (standing("x", a0=7), standing("x", a0=8), None),
        (standing("x", a0=7), standing(a0=8), None),
        (standing(a0=7), standing("x", a0=8), None),
        (standing("x", a0=7, b0=1), standing(b0=1), None),
        (standing("x", a0=7, a1=0), standing("y", a0=8, a1=5), "id x, was .* id y, .* up to 0:7, 1:0: begin"),
        (standing(a0=7), standing(a0=6), "a-0 was read up to 7 and now ends at 6: was the topic deleted"),
        (standing(a0=7, a1=0), standing(a0=7), "a-1 was read up to 0 and now is not there"),
    ],
)
def test_lost(stood: Standing, found: Standing, lost: str | None) -> None:
    """A topic that is gone is none of it, and an id that one of them does not know says nothing."""
    why = find_lost(stood, found)
    assert why is None if lost is None else re.search(lost, why or "")


def test_offsets_in_checkpoints() -> None:
    """Written alike whatever came first; those of earlier versions have no ids, as have those of old brokers."""
    offset: StreamOffset = {"a": {"0": 7, "10": 1}, "b": {"0": 3}, "topic ids": {"a": "x", "b": "y"}}
    found = parse_offset(offset)
    assert found.positions == {
        TopicPartition("a", 0): 7,
        TopicPartition("a", 10): 1,
        TopicPartition("b", 0): 3,
    }
    assert (found.ids, found.topics) == ({"a": "x", "b": "y"}, {"a", "b"})
    positions, ids = dict(reversed(found.positions.items())), dict(reversed([*found.ids.items()]))
    assert str(tell_offset(positions, ids)) == str(offset)
    old: StreamOffset = {"a": {"0": 7}}
    assert parse_offset(old) == standing(a0=7)
    assert tell_offset(parse_offset(old).positions, {}) == old
