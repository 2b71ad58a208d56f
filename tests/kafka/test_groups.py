"""The group requests in every version: what Holdfast must answer is what Apache Kafka answers."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.agent import handlers
from holdfast.agent.registry import APIS
from holdfast.lab.kafka_broker import KafkaCluster
from tests.agent import requests
from tests.agent.handlers.group_checks import GROUP_CHECKS
from tests.agent.raw import FindCoordinatorRequest, RawClient

READY_SECONDS_MAX = 30.0

assert handlers.__all__

EVERY_VERSION = [
    pytest.param(key, version, id=f"{key}-v{version}")
    for key in GROUP_CHECKS
    for version in range(APIS[key].first, APIS[key].last + 1)
]


class KafkaExchange:
    """A connection to Kafka, topic `t` and group `g` as the checks expect them."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        client.call(requests.create_topic("t", partitions=2))
        deadline = time.monotonic() + READY_SECONDS_MAX
        while client.call(requests.commit_offset("g", "t", 2)).topics[0].partitions[0].error_code:
            # Kafka makes the topic that groups live in when somebody looks for a coordinator.
            client.call(FindCoordinatorRequest(key="g", key_type=0, version=2))
            assert time.monotonic() < deadline, "the coordinator is not ready"

    def call(self, message: Any) -> Any:
        """Send and receive."""
        return self.client.call(message)


@pytest.fixture(scope="module")
def exchange(kafka_cluster: KafkaCluster) -> Iterator[KafkaExchange]:
    with RawClient(int(kafka_cluster.bootstrap.rpartition(":")[2])) as client:
        yield KafkaExchange(client)


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_kafka_answers_the_same(exchange: KafkaExchange, key: int, version: int) -> None:
    """The very checks that Holdfast has to pass."""
    GROUP_CHECKS[key](exchange, version)
