"""The topics of a consumer's subscription, read from bytes that clients make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from holdfast.agent.groups.subscription import subscribed_topics
from tests.agent.groups.driving import subscription


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_is_read(version: int) -> None:
    """What follows the topics is none of our business."""
    message = ConsumerProtocolSubscription(topics=["a", "ü"], user_data=b"x", version=version)
    assert subscribed_topics(bytes(message.encode())) == frozenset({"a", "ü"})


def test_topics_are_read() -> None:
    """With and without user data."""
    assert subscribed_topics(subscription()) == frozenset()
    assert subscribed_topics(subscription("a", "b.c", user_data=b"x")) == frozenset({"a", "b.c"})


@given(st.binary(max_size=40))
def test_anything_else_is_not_understood(data: bytes) -> None:
    """Never an exception: other kinds of members put there what they like."""
    topics = subscribed_topics(data)
    assert topics is None or len(data) >= 6


@given(st.integers(0, 12))
def test_cut_off_bytes_are_not_half_understood(length: int) -> None:
    """Better to know nothing than to miss a topic."""
    whole = subscription("topic")
    assert subscribed_topics(whole[:length]) is None
