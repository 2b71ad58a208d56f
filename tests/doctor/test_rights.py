"""What a cluster keeps from us is named: the right, and on what."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from holdfast.client.cluster import Cluster, Metadata, Partition, Topic
from holdfast.client.retry import refusal
from holdfast.client.topics import ConfigEntry, ConfigSource
from holdfast.doctor import cluster as doctor_cluster
from holdfast.doctor.cluster import choose_topics, examine_topics
from holdfast.doctor.live import Meter
from holdfast.doctor.rights import needing
from holdfast.errors import RightMissing, UsageError

NOT_GRANTED = 29


def topic(name: str, partitions: int = 1) -> Topic:
    numbers = range(partitions)
    return Topic(
        name=name,
        partitions={
            number: Partition(index=number, leader=1, replicas=(1, 2), in_sync=(1, 2)) for number in numbers
        },
    )


class Guarded:
    """A cluster that shows some topics, and of others nothing unless they are named."""

    bootstrap = "b:9092"

    def __init__(self, shown: Mapping[str, Topic], hidden: tuple[str, ...] = ()) -> None:
        self._shown = shown
        self._hidden = hidden

    def metadata(self, names: list[str] | None = None) -> Metadata:
        for name in names or ():
            if name in self._hidden:
                raise refusal(NOT_GRANTED, f"topic {name!r}")
        return Metadata(brokers={}, topics=self._shown)


def choose(guarded: Guarded, *patterns: str) -> Any:
    return choose_topics(cast(Cluster, guarded), patterns)


def test_topics_that_may_not_be_described() -> None:
    """Brokers leave them out of every list; who names one is told."""
    with pytest.raises(RightMissing, match=r"no topic is to be seen at b:9092.*Describe") as caught:
        choose(Guarded({}))
    assert caught.value.exit_code == 3
    with pytest.raises(RightMissing, match="the right Describe on topic 'secret' is missing"):
        choose(Guarded({"a": topic("a")}, hidden=("secret",)), "secret")
    for pattern in ("secret*", "nothing"):
        with pytest.raises(UsageError, match="no topic matches"):
            choose(Guarded({"a": topic("a")}, hidden=("secret",)), pattern)


def test_topics_whose_configs_may_not_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are compacted nobody can tell: each partition is named, and nobody is asked for its records."""

    def describe(_: Cluster, name: str) -> list[ConfigEntry]:
        if name == "closed":
            raise refusal(NOT_GRANTED, f"configs of topic {name!r}")
        return [ConfigEntry(name="cleanup.policy", value="delete", source=ConfigSource.TOPIC)]

    monkeypatch.setattr(doctor_cluster, "describe_configs", describe)
    guarded = Guarded({"closed": topic("closed", 3), "events": topic("events")})
    chosen = choose(guarded)
    assert chosen.not_compacted == ("events",)
    examined = list(examine_topics(cast(Cluster, guarded), chosen, meter=Meter(), wait_s_max=0))
    assert [(each.place.partition, missed.why) for each in examined for missed in each.not_examined] == [
        (number, "the right DescribeConfigs on topic 'closed' is missing") for number in range(3)
    ]


@pytest.mark.parametrize(
    ("code", "on", "said"),
    [
        (29, "orders", "the right Read on topic 'orders' is missing"),
        (31, None, "the right Read on the cluster is missing"),
    ],
)
def test_a_right_by_its_name(code: int, on: str | None, said: str) -> None:
    """As Kafka's own tools call it."""
    with pytest.raises(RightMissing) as caught, needing("Read", on):
        raise refusal(code, "somewhere")
    assert str(caught.value) == said
