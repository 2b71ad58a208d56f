"""Topic names: Kafka's rules."""

import pytest

from holdfast.agent.catalog import check_name
from holdfast.errors import InvalidTopic


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_names_that_kafka_allows(name: str) -> None:
    """Letters, digits, '.', '_' and '-', up to 249 of them."""
    check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a\0b"])
def test_names_that_kafka_refuses(name: str) -> None:
    """They would be path or metric names somewhere."""
    with pytest.raises(InvalidTopic):
        check_name(name)
